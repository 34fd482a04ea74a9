"""`berth devices`: what is there, what each device supports, why something is missing."""

import json

import program


def devices_of(framework):
    return [device for platform in framework["platforms"] for device in platform["devices"]]


class Devices(program.Case):
    def inventory(self, **settings):
        frameworks = json.loads(self.run_ok("devices", "--json", **settings))["frameworks"]
        return {framework["name"]: framework for framework in frameworks}

    def test_pocl(self):
        opencl = self.inventory()["OpenCL"]
        platforms = [p for p in opencl["platforms"] if p["name"] == "Portable Computing Language"]
        self.assertEqual(len(platforms), 1, "PoCL is not installed")
        (device,) = platforms[0]["devices"]
        self.assertEqual(device["type"], "cpu")
        self.assertIsNone(device["problem"])
        self.assertTrue(device["compiler"])
        self.assertTrue(device["version"].startswith("OpenCL "))
        self.assertGreater(device["max_alloc_bytes"], 0)
        self.assertLessEqual(device["max_alloc_bytes"], device["total_bytes"])
        # In bytes, though OpenCL tells bits; a power of two.
        self.assertEqual(device["base_alignment"] & (device["base_alignment"] - 1), 0)
        self.assertIn(device["base_alignment"], range(1, 4097))
        supports = device["supports"]
        for operation in ("offset", "transfer", "fill", "map", "queues", "host", "zero", "external_ptr"):
            self.assertTrue(supports[operation], operation)
        self.assertTrue(supports["copy_from_disk"])

    def test_native(self):
        (device,) = devices_of(self.inventory()["Native"])
        self.assertEqual(device["type"], "host")
        self.assertTrue(device["supports"]["device_address"])
        self.assertFalse(device["supports"]["queues"])

    def test_numbers_count_up_over_all_frameworks(self):
        numbers = [d["number"] for framework in self.inventory().values() for d in devices_of(framework)]
        self.assertEqual(numbers, list(range(len(numbers))))

    def test_text_says_what_json_says(self):
        text = self.run_ok("devices")
        for framework in self.inventory().values():
            self.assertIn(framework["name"], text)
            for device in devices_of(framework):
                self.assertIn(f"[{device['number']}] {device['name']}", text)
        self.assertIn("views at any byte offset", text)

    def test_no_driver(self):
        text = self.run_ok("devices", env=program.NO_DRIVER)
        for part in ("PLATFORM_NOT_FOUND", "pocl-opencl-icd", "OCL_ICD_VENDORS=/nonexistent", "[0] host memory"):
            self.assertIn(part, text)
        opencl = self.inventory(env=program.NO_DRIVER)["OpenCL"]
        self.assertEqual(opencl["platforms"], [])
        self.assertIn("PLATFORM_NOT_FOUND", opencl["problem"])
        self.assertIn("pocl-opencl-icd", opencl["remedy"])

    def test_platform_without_devices(self):
        self.assertIn("CL_DEVICE_NOT_FOUND", self.run_ok("devices", fault="no_devices"))
        for platform in self.inventory(fault="no_devices")["OpenCL"]["platforms"]:
            self.assertEqual(platform["devices"], [])
            self.assertIn("CL_DEVICE_NOT_FOUND", platform["problem"])

    def test_device_that_is_not_available(self):
        self.assertIn("not available", self.run_ok("devices", fault="not_available"))
        for device in devices_of(self.inventory(fault="not_available")["OpenCL"]):
            self.assertIn("not available", device["problem"])
            self.assertIsNone(device["supports"])

    def test_device_that_does_not_open(self):
        self.assertIn("clCreateContext: CL_OUT_OF_HOST_MEMORY", self.run_ok("devices", fault="no_context"))


program.main()
