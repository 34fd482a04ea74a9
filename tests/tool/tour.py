"""`berth tour`: what comes back is what was sent, and the histogram is what an independent count says."""

import collections
import os
import random
import re

import program

LARGE = 104857600 + 12345


def skewed(nbytes, seed):
    """Bytes of which some values are far more frequent than others, and no two stretches are alike."""
    return random.Random(seed).randbytes(nbytes).translate(bytes(v * v // 255 for v in range(256)))


def histogram(content):
    counts = collections.Counter(content)
    return [counts[value] for value in range(256)]


class Tour(program.FolderCase):
    def assert_tour(self, path, content, *arguments):
        """Every device's tour of the file is right; returns the objects."""
        tours = self.run_json_lines("tour", path, *arguments)
        expected = histogram(content)
        self.assertGreater(len(tours), 0)
        for tour in tours:
            with self.subTest(device=tour["device"]["name"], bytes=len(content)):
                self.assertTrue(tour["histogram_equal"])
                self.assertTrue(tour["bytes_equal"])
                self.assertEqual(tour["bytes"], len(content))
                self.assertEqual(sum(tour["loaded"].values()), len(content))
                self.assertEqual(tour["loaded"]["copied_in"], 0)
                self.assertEqual(tour["histogram"], expected)
                in_place = tour["in_place"]
                self.assertTrue(in_place["histogram_equal"])
                self.assertIsNone(in_place["refused"])
                if content and in_place["link"] in ("same", "shared"):
                    self.assertEqual(in_place["bytes_not_moved"], len(content))
                else:
                    self.assertEqual(in_place["bytes_not_moved"], 0)
        return tours

    def test_large_file(self):
        content = skewed(LARGE, seed=1)
        tours = self.assert_tour(self.file("large", content), content)
        self.assertEqual([t["device"]["framework"] for t in tours].count("Native"), 1)
        opencl = [t for t in tours if t["device"]["framework"] == "OpenCL"]
        self.assertGreaterEqual(len(opencl), 1, "no OpenCL device")
        for tour in opencl:
            self.assertEqual(tour["histogram_by"], "OpenCL kernel")
        for tour in tours:
            self.assertGreater(tour["pieces"], 1)
            native = tour["device"]["framework"] == "Native"
            self.assertIn(tour["in_place"]["link"], ("same",) if native else ("shared", "shadow"))
            steps = {step["step"]: step for step in tour["steps"]}
            self.assertGreater(steps["attach"]["ms"], 0)
            for name in ("load", "read_file", "kernel", "device_to_host", "host_histogram", "whole", "kernel_in_place"):
                self.assertEqual(steps[name]["bytes"], LARGE)
                self.assertGreater(steps[name]["ms"], 0)
                rate = LARGE / steps[name]["ms"] / 1e6
                self.assertAlmostEqual(steps[name]["gb_per_s"] / rate, 1, places=6)

    def test_small_files(self):
        # Around the ends of what an item, a round and a group of the kernel take.
        for nbytes in (1, 2, 15, 16, 17, 1023, 1024, 1025, 65537, 1000003):
            content = skewed(nbytes, seed=nbytes)
            self.assert_tour(self.file(f"small-{nbytes}", content), content, "--device", "0")

    def test_one_byte_on_every_device(self):
        self.assert_tour(self.file("one", b"\xff"), b"\xff")

    def test_one_value(self):
        for value in (0, 255):
            content = bytes([value]) * 1234567
            self.assert_tour(self.file("flat", content), content, "--device", "0")

    def test_empty_file(self):
        path = self.file("empty", b"")
        for tour in self.assert_tour(path, b""):
            self.assertEqual(tour["pieces"], 0)
            self.assertIsNone(tour["in_place"]["link"])
        text = self.run_ok("tour", path)
        self.assertIn("the file is empty: so is its histogram", text)
        self.assertIn("histogram equal: yes, bytes equal: yes", text)

    def test_pieces(self):
        content = skewed(1000003, seed=7)
        path = self.file("pieces", content)
        for piece in (4097, 65536, 1000002, 1000003, 1000004):
            for tour in self.assert_tour(path, content, "--piece", piece):
                self.assertEqual(tour["piece_bytes"], min(piece, len(content)))
                self.assertEqual(tour["pieces"], -(-len(content) // piece))
        (tour,) = self.assert_tour(path, content, "--piece", "64KiB", "--device", "native")
        self.assertEqual(tour["piece_bytes"], 65536)

    def test_pieces_of_one_byte(self):
        content = skewed(100, seed=8)
        self.assert_tour(self.file("crumbs", content), content, "--piece", "1")

    def test_default_is_the_program_itself(self):
        text = self.run_ok("tour")
        self.assertIn(str(program.BERTH), text)
        self.assertIn(f"{program.BERTH.stat().st_size:,} bytes", text)
        devices = re.findall(r"^\[\d+\] ", text, re.MULTILINE)
        self.assertGreaterEqual(len(devices), 2)
        self.assertEqual(text.count("histogram equal: yes, bytes equal: yes"), len(devices))

    def test_table(self):
        content = skewed(123456, seed=9)
        text = self.run_ok("tour", self.file("table", content), "--device", "0")
        self.assertRegex(text, r"step +bytes +ms +GB/s\n")
        for step in (
            r"file to device \((direct|staged)\)",
            "read file to compare",
            r"histogram \(OpenCL kernel\)",
            "device to host",
            "host histogram",
            "histogram in place",
        ):
            self.assertRegex(text, rf"\n +{step}.* +123,456 +[\d.]+ +[\d.]+\n")
        self.assertRegex(text, r"\n  without a copy: the link is \w+, (123,456|0) bytes not moved, histogram equal: yes\n")
        most = max(range(256), key=histogram(content).__getitem__)
        self.assertIn(f"most often {most:#04x}", text)

    def test_device_by_number_and_name(self):
        path = self.file("chosen", b"berth")
        everything = self.run_json_lines("tour", path)
        for tour in everything:
            device = tour["device"]
            (chosen,) = self.run_json_lines("tour", path, "--device", device["number"])
            self.assertEqual(chosen["device"], device)
            names = [t["device"]["name"] for t in self.run_json_lines("tour", path, "--device", device["name"].upper())]
            self.assertIn(device["name"], names)
        (native,) = self.run_json_lines("tour", path, "--device", "native")
        self.assertEqual(native["histogram_by"], "host function over the map")

    def test_native_needs_no_driver(self):
        path = self.file("alone", b"berth")
        (tour,) = self.run_json_lines("tour", path, "--device", "native", env=program.NO_DRIVER)
        self.assertTrue(tour["histogram_equal"])

    def test_file_behind_a_link(self):
        path = self.file("target", b"berth")
        link = self.folder / "link"
        os.symlink(path, link)
        self.assert_tour(link, b"berth", "--device", "native")

    def test_name_that_is_no_utf_8(self):
        path = os.fsencode(self.folder) + b"/\xff\n"
        with open(path, "wb") as file:
            file.write(b"berth")
        (tour,) = self.run_json_lines("tour", os.fsdecode(path), "--device", "native")
        self.assertEqual(tour["bytes"], 5)
        self.assertIn("?: 5 bytes\n", self.run_ok("tour", os.fsdecode(path), "--device", "native", errors="replace"))


program.main()
