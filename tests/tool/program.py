"""Runs the berth program in a test.

A test script takes the program's path and the path of the fault library (faults.cpp) before unittest's own arguments.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BERTH = pathlib.Path(sys.argv[1]).resolve()
FAULTS = pathlib.Path(sys.argv[2]).resolve()
NO_DRIVER = {"OCL_ICD_VENDORS": "/nonexistent"}


def with_preloads_allowed(environment):
    """The environment in which a program built with AddressSanitizer starts although something is preloaded."""
    options = environment.get("ASAN_OPTIONS", "")
    return {**environment, "ASAN_OPTIONS": f"{options}:verify_asan_link_order=0"}


def run(*arguments, env=None, fault=None, **settings):
    """Runs `berth ARGUMENTS...` to its end; the result has returncode, stdout and stderr."""
    environment = {**os.environ, **(env or {})}
    if fault is not None:
        environment = {**with_preloads_allowed(environment), "BERTH_TOOL_FAULT": fault, "LD_PRELOAD": str(FAULTS)}
    command = [str(word) for word in (BERTH, *arguments)]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    return subprocess.run(command, env=environment, text=True, timeout=500, **settings)


class Case(unittest.TestCase):
    maxDiff = 2000

    def run_ok(self, *arguments, **settings):
        """Runs the program, which must succeed and have nothing to complain about; returns its output."""
        result = run(*arguments, **settings)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        return result.stdout

    def run_json_lines(self, *arguments, **settings):
        """The objects that a successful run prints, one a line."""
        return [json.loads(line) for line in self.run_ok(*arguments, "--json", **settings).splitlines()]

    def assert_refused(self, result, *parts):
        """One clear complaint that contains all the parts, and status 2."""
        self.assertEqual(result.returncode, 2, result.stderr + (result.stdout or ""))
        for part in parts:
            self.assertIn(part, result.stderr)


class FolderCase(Case):
    """With a folder of its own, shared by the tests of the class."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="berth-tool-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path


def note(text):
    """Says loudly what could not be tried here."""
    print(f"NOT TRIED: {text}", file=sys.stderr, flush=True)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
