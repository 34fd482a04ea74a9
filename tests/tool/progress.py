"""Progress: on a terminal for a large file, elsewhere when asked for, never when told not to."""

import os
import pty

import program

LARGE = 70 << 20


def on_a_terminal(*arguments):
    """Runs the program with stderr on a terminal; returns what it wrote there."""
    ours, theirs = pty.openpty()
    process = program.run(*arguments, stderr=theirs)
    os.close(theirs)
    assert process.returncode == 0
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # the other end is closed and empty
        pass
    os.close(ours)
    return shown.decode()


class Progress(program.FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.large = cls.folder / "large"
        with open(cls.large, "wb") as file:
            file.truncate(LARGE)

    def test_large_file_on_a_terminal(self):
        shown = on_a_terminal("tour", self.large, "--device", "native")
        self.assertIn("host histogram: ", shown)
        self.assertIn("of 70.0 MiB", shown)
        self.assertTrue(shown.endswith("\r\x1b[K"), "the line is left behind")

    def test_small_file_on_a_terminal(self):
        self.assertEqual(on_a_terminal("tour", self.file("small", b"x"), "--device", "native"), "")

    def test_switched_off(self):
        self.assertEqual(on_a_terminal("tour", self.large, "--device", "native", "--no-progress"), "")

    def test_no_terminal(self):
        self.run_ok("tour", self.large, "--device", "native")

    def test_asked_for(self):
        result = program.run("tour", self.file("small", b"x"), "--device", "native", "--progress")
        self.assertEqual(result.returncode, 0)
        self.assertIn("host histogram: 0 bytes of 1 byte (0 %)\n", result.stderr)
        self.assertNotIn("\x1b", result.stderr)


program.main()
