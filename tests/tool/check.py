"""`berth check`: the laws of allocators on the devices of this machine."""

import json
import re

import program


class Check(program.Case):
    def laws(self):
        return self.run_ok("check", "--list").split()

    def test_list(self):
        laws = self.laws()
        self.assertGreater(len(laws), 10)
        self.assertEqual(len(laws), len(set(laws)))

    def test_native_device(self):
        text = self.run_ok("check", "--device", "native")
        results = re.findall(r"^  (pass|skip)  (\w+)(.*)$", text, re.MULTILINE)
        self.assertEqual([law for _, law, _ in results], self.laws())
        for verdict, law, reason in results:
            self.assertEqual(verdict == "skip", reason.startswith(": "), f"{law}: {reason}")
        passed, skipped = (sum(verdict == word for verdict, *_ in results) for word in ("pass", "skip"))
        self.assertIn(f"  {passed} passed, 0 failed, {skipped} skipped\n", text)

    def test_one_law_on_every_device(self):
        lines = [json.loads(line) for line in self.run_ok("check", "--law", "round_trip", "--json").splitlines()]
        self.assertGreaterEqual(len(lines), 2)
        self.assertEqual([line["device"] for line in lines], list(range(len(lines))))
        for line in lines:
            self.assertEqual((line["law"], line["verdict"], line["reason"]), ("round_trip", "pass", None))

    def test_broken_law(self):
        result = program.run("check", "--device", "0", "--law", "round_trip", fault="flipped_bit")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stdout, r"  fail  round_trip: \S.*\n  0 passed, 1 failed, 0 skipped\n")

    def test_device_that_does_not_open(self):
        result = program.run("check", "--device", "0", "--law", "round_trip", fault="no_context")
        self.assertEqual(result.returncode, 1)
        self.assertIn("clCreateContext: CL_OUT_OF_HOST_MEMORY", result.stdout)

    def test_unknown_law(self):
        self.assert_refused(program.run("check", "--law", "gravity"), "'gravity'", "round_trip")

    def test_no_device(self):
        self.assert_refused(program.run("check", env=program.NO_DRIVER), "no device", "pocl-opencl-icd")


program.main()
