"""`berth tour` refuses what it cannot do: one clear sentence on stderr, status 2, no hang."""

import os
import pathlib
import shutil
import socket
import stat

import program

NOBODY = 65534


class Refusals(program.FolderCase):
    def assert_tour_refused(self, path, *parts, **settings):
        result = program.run("tour", path, **settings)
        self.assert_refused(result, "berth tour: ", *parts)
        self.assertEqual(result.stdout, "")

    def test_missing_file(self):
        path = self.folder / "missing"
        self.assert_tour_refused(path, str(path), "No such file or directory")

    def test_folder(self):
        self.assert_tour_refused(self.folder, str(self.folder), "a directory, not a regular file")

    def test_fifo(self):
        path = self.folder / "fifo"
        os.mkfifo(path)
        self.assert_tour_refused(path, "a FIFO, not a regular file")

    def test_device_file(self):
        self.assert_tour_refused("/dev/zero", "a device, not a regular file")

    def test_socket(self):
        path = self.folder / "socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            self.assert_tour_refused(path, "a socket, not a regular file")

    def test_dangling_link(self):
        path = self.folder / "dangling"
        os.symlink("nowhere", path)
        self.assert_tour_refused(path, "No such file or directory")

    def test_kernel_files(self):
        self.assert_tour_refused("/proc/self/status", "bytes but no size")
        lying = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
        if lying.exists():
            self.assert_tour_refused(lying, "ended after", "4,096 bytes")
        else:
            program.note("a file of /sys, which is shorter than it says")

    def test_unreadable_file(self):
        path = self.file("secret", b"berth")
        path.chmod(0)
        if os.geteuid() != 0:
            return self.assert_tour_refused(path, "Permission denied")

        # Root reads everything: run as nobody, from where nobody may go.
        self.folder.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        try:
            self.assert_tour_refused(path, "Permission denied", user=NOBODY, group=NOBODY, extra_groups=[])
        except PermissionError as problem:
            program.note(f"an unreadable file: this root may not become nobody, or nobody may not run it ({problem})")

    def test_no_driver(self):
        path = self.file("ordinary", b"berth")
        parts = ("no device", "PLATFORM_NOT_FOUND", "pocl-opencl-icd")
        self.assert_tour_refused(path, *parts, "--device native", env=program.NO_DRIVER)
        result = program.run("tour", path, "--device", "opencl", env=program.NO_DRIVER)
        self.assert_refused(result, *parts, "'opencl'")

    def test_no_such_device(self):
        for name in ("99", "no such device"):
            result = program.run("tour", "--device", name)
            self.assert_refused(result, f"no device matches '{name}'", "[0]", "host memory")

    def test_piece_above_the_device_maximum(self):
        path = self.file("ordinary", b"berth")
        result = program.run("tour", path, "--device", "0", "--piece", "1024G")
        self.assert_refused(result, "[0]", "out of bounds", "1,099,511,627,776 bytes")

    def test_too_long_a_name(self):
        self.assert_tour_refused(self.folder / ("x" * 300), "File name too long")

    def test_works_where_nothing_can_be_written(self):
        path = self.file("ordinary", b"berth")
        shutil.rmtree(self.folder / "nowhere", ignore_errors=True)
        self.run_ok("tour", path, "--device", "native", cwd="/")


program.main()
