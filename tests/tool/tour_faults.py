"""The tour notices when something goes wrong under it: bytes that come back wrong, a kernel that does not run, a file
that ends early, a driver that refuses."""

import random

import program


class Faults(program.FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.folder / "content"
        cls.path.write_bytes(random.Random(3).randbytes(300_001))

    def tour(self, fault, device="0"):
        return program.run("tour", self.path, "--device", device, fault=fault)

    def test_preloading_alone_changes_nothing(self):
        result = self.tour("none")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_partial_and_interrupted_reads_are_put_together(self):
        (tour,) = self.run_json_lines("tour", self.path, "--device", "native", fault="partial_reads")
        content = self.path.read_bytes()
        self.assertEqual(tour["histogram"], [content.count(value) for value in range(256)])
        self.assertTrue(tour["histogram_equal"] and tour["bytes_equal"])

    def test_file_that_shrinks(self):
        self.assert_refused(self.tour("shrinking_file"), str(self.path), "ended after 1,000 of its 300,001 bytes")

    def test_file_that_cannot_be_read(self):
        self.assert_refused(self.tour("io_error"), f"cannot read {self.path}: Input/output error")

    def test_wrong_bytes_back(self):
        for fault in ("flipped_bit", "no_copy_back"):
            with self.subTest(fault=fault):
                result = self.tour(fault)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("histogram equal: yes, bytes equal: NO", result.stdout)

    def test_no_copy_back_of_bytes_that_were_there_before(self):
        """The second piece equals the first, so what is left in host memory would pass for it."""
        path = self.file("twice", b"ab" * 5000)
        result = program.run("tour", path, "--device", "0", "--piece", "5000", "--json", fault="no_copy_back")
        self.assertEqual(result.returncode, 1)
        self.assertIn('"bytes_equal":false', result.stdout)

    def test_wrong_histogram(self):
        result = self.tour("no_kernel")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("histogram equal: NO, bytes equal: yes", result.stdout)

    def test_driver_that_refuses(self):
        for fault, sentence in (
            ("no_context", "clCreateContext: CL_OUT_OF_HOST_MEMORY"),
            ("no_compiler", "clBuildProgram: "),
            ("no_memory", "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4), asked 300001 bytes"),
            ("device_lost", "clEnqueueReadBuffer: CL_OUT_OF_RESOURCES"),
            ("not_available", "not available"),
        ):
            with self.subTest(fault=fault):
                self.assert_refused(self.tour(fault), "berth tour: [0] ", sentence)

    def test_no_usable_device(self):
        for fault in ("no_devices", "not_available"):
            with self.subTest(fault=fault):
                self.assert_refused(program.run("tour", self.path, fault=fault), "no device", "--device native")

    def test_other_devices_go_on(self):
        result = program.run("tour", self.path, "--json", fault="no_context")
        self.assertEqual(result.returncode, 2)
        self.assertIn('"framework":"Native"', result.stdout)
        self.assertIn('"histogram_equal":true', result.stdout)


program.main()
