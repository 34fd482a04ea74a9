"""The program on CUDA: on the fake driver, or, where BERTH_CUDA_DRIVER is "real", on the machine's own."""

import json
import os
import sys
import unittest

import program

REAL = os.environ.get("BERTH_CUDA_DRIVER") == "real"
FAKE = {} if REAL else {"LD_LIBRARY_PATH": os.environ["FAKE_CUDA_FOLDER"]}


def fake_only(test):
    return unittest.skipIf(REAL, "needs the fake driver")(test)


class Cuda(program.FolderCase):
    def framework(self, **environment):
        output = self.run_ok("devices", "--json", env={**FAKE, **environment})
        (found,) = [f for f in json.loads(output)["frameworks"] if f["name"] == "CUDA"]
        return found

    def test_devices(self):
        (platform,) = self.framework()["platforms"]
        self.assertGreaterEqual(len(platform["devices"]), 1)
        for device in platform["devices"]:
            self.assertIsNone(device["problem"])
            self.assertEqual(device["type"], "gpu")
            self.assertGreater(device["total_bytes"], 0)
            self.assertTrue(all(device["supports"].values()), device["supports"])
        text = self.run_ok("devices", env=FAKE)
        self.assertIn("registered memory: yes", text)

    def test_tour(self):
        content = bytes(range(256)) * 1000 + os.urandom(100_003)
        path = self.file("content", content)
        tours = self.run_json_lines("tour", path, "--device", "cuda", "--piece", "70001", env=FAKE)
        # NVIDIA's OpenCL platform is called CUDA, too.
        tours = [tour for tour in tours if tour["device"]["framework"] == "CUDA"]
        self.assertGreaterEqual(len(tours), 1)
        for tour in tours:
            self.assertTrue(tour["histogram_equal"])
            self.assertTrue(tour["bytes_equal"])
            # The mapped file is for reading only, which a device may not register.
            if not REAL or tour["in_place"]["refused"] is None:
                self.assertIn(tour["in_place"]["link"], ("registered", "pageable"))
                self.assertEqual(tour["in_place"]["bytes_not_moved"], len(content))

    def test_check(self):
        text = self.run_ok("check", "--device", "cuda", env=FAKE)
        self.assertRegex(text, r"  \d\d passed, 0 failed, [01] skipped\n")

    def test_bench(self):
        rows = self.run_json_lines("bench", "--filter", "alloc_free", env=FAKE)
        self.assertEqual({row["peer"] for row in rows}, {None, "cuMemAlloc, cuMemFree", "cuMemHostAlloc, cuMemFreeHost"})
        for row in rows:
            self.assertEqual((row["bench"], row["unit"]), ("alloc_free", "us"))
            self.assertGreater(row["value"], 0)

    @fake_only
    def test_bench_without_a_driver(self):
        text = self.run_ok("bench", "--filter", "copyin", env={"LD_LIBRARY_PATH": "/nonexistent"})
        self.assertIn("copyin: not measured: ", text)
        self.assertIn("libcuda.so.1", text)

    @fake_only
    def test_several_devices(self):
        (platform,) = self.framework(FAKE_CUDA_DEVICES="3")["platforms"]
        self.assertEqual([d["name"] for d in platform["devices"]], ["Fake GPU 0", "Fake GPU 1", "Fake GPU 2"])

    @fake_only
    def test_what_is_missing_is_told_apart(self):
        for environment, problem, remedy in (
            ({"LD_LIBRARY_PATH": "/nonexistent"}, "libcuda.so.1", "Install NVIDIA's driver"),
            ({"FAKE_CUDA_HIDES": "cuMemAlloc"}, "cuMemAlloc", "newer driver"),
            ({"FAKE_CUDA_DEVICES": "0"}, "CUDA_ERROR_NO_DEVICE", "nvidia-smi"),
        ):
            framework = self.framework(**environment)
            self.assertEqual(framework["platforms"], [])
            self.assertIn(problem, framework["problem"])
            self.assertIn(remedy, framework["remedy"])
            text = self.run_ok("devices", env={**FAKE, **environment})
            self.assertIn(problem, text)
            self.assertIn(remedy, text)

    @fake_only
    def test_kernel_that_does_not_load(self):
        result = program.run("tour", "--device", "cuda", env={**FAKE, "FAKE_CUDA_FAILS": "cuModuleLoadData"})
        self.assert_refused(result, "cuModuleLoadData: CUDA_ERROR_UNKNOWN (999)")

    @fake_only
    def test_device_that_does_not_open(self):
        environment = {**FAKE, "FAKE_CUDA_FAILS": "cuStreamCreate"}
        self.assertIn("cuStreamCreate: CUDA_ERROR_UNKNOWN", self.run_ok("devices", env=environment))


if REAL and "CUDA" not in program.run("check", "--device", "cuda", "--law", "round_trip").stdout:
    print("skipped: no CUDA device")
    sys.exit(77)
program.main()
