"""`berth bench`: what is printed is well-formed; the numbers are for a person to judge."""

import program

KEYS = ["bench", "case", "value", "unit", "peer", "version"]


class Bench(program.Case):
    def test_json(self):
        rows = self.run_json_lines("bench", "--filter", "packed")
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual((row["bench"], row["unit"]), ("packed_call", "ns"))
            self.assertIsInstance(row["value"], float)
            self.assertNotEqual(row["version"], "")
        values = {row["case"]: row["value"] for row in rows}
        self.assertGreater(values["direct"], 0)
        self.assertGreater(values["packed"], 0)
        self.assertIn("packed over direct", values)
        self.assertEqual([row["peer"] is None for row in rows], [True, True, True, False, False])

    def test_text(self):
        text = self.run_ok("bench")
        self.assertRegex(text, r"^packed_call: .*\?")
        self.assertRegex(text, r"\n  packed over direct +-?[\d.]+ +ns +berth +\d+\.\d+\.\d+\n")

    def test_cuda_call(self):
        rows = self.run_json_lines("bench", "--filter", "cuda_call")
        self.assertIn("alloc with its free", [row["case"] for row in rows])
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual((row["unit"], row["peer"]), ("ns", None))
            self.assertGreater(row["value"], 0)

    def test_host_ptr_sync(self):
        rows = self.run_json_lines("bench", "--filter", "host_ptr")
        cases = [row["case"] for row in rows]
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertIn(row["unit"], ("us", "x"))
            self.assertGreater(row["value"], 0)
            self.assertEqual(row["peer"], "plain OpenCL" if row["case"].startswith("by hand") else None)
        for size in ("4.0 KiB", "16.0 MiB"):
            for way in ("attached", "by hand", "copies"):
                self.assertTrue(any(c.startswith(way) and c.endswith(size) for c in cases), f"{way}, {size}: {cases}")
        self.assertIn("attached, slowest over fastest size", cases)

    def test_unknown_filter(self):
        self.assert_refused(program.run("bench", "--filter", "nothing like it"), "'nothing like it'", "packed_call")


program.main()
