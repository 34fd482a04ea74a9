"""What the program says of itself, and how it answers wrong arguments."""

import re

import program


class Usage(program.Case):
    def test_no_arguments_give_the_help(self):
        output = self.run_ok()
        self.assertEqual(output, self.run_ok("--help"))
        for word in ("devices", "tour", "check", "bench", "Exit status"):
            self.assertIn(word, output)

    def test_every_command_has_help(self):
        for command in ("devices", "tour", "check", "bench"):
            self.assertIn("--json", self.run_ok(command, "--help"))

    def test_version(self):
        self.assertRegex(self.run_ok("--version"), re.compile(r"^berth \d+\.\d+\.\d+\n$"))

    def test_wrong_arguments(self):
        for arguments in (
            ["nonsense"],
            ["--nonsense"],
            ["devices", "nonsense"],
            ["tour", "one", "two"],
            ["tour", "--device"],
            ["tour", "--progress", "--no-progress"],
        ):
            with self.subTest(arguments=arguments):
                result = program.run(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertNotEqual(result.stderr, "")

    def test_sizes(self):
        for size in ("0", "-4", "abc", "12x", "1KiBx", "1.5M", "", "99999999999999999999999", "17179869184G"):
            with self.subTest(size=size):
                self.assert_refused(program.run("tour", f"--piece={size}"), "--piece")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.assert_refused(program.run("devices", stdout=full), "could not be written")


program.main()
