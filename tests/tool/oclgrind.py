"""The program on Oclgrind, which checks every access of the kernel for bounds and races, and stands one host thread."""

import os
import random
import shutil
import subprocess
import sys

import program


def oclgrind(*arguments):
    command = ["oclgrind", "--check-api", "--data-races", str(program.BERTH), *map(str, arguments)]
    environment = program.with_preloads_allowed(os.environ)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)


class Oclgrind(program.FolderCase):
    def test_tour_without_a_complaint(self):
        path = self.file("content", random.Random(5).randbytes(30_011))
        result = oclgrind("tour", path, "--device", "oclgrind")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertIn("histogram equal: yes, bytes equal: yes", result.stdout)

    def test_check_leaves_threads_out(self):
        result = oclgrind("check", "--device", "oclgrind", "--law", "threads")
        self.assertIn("the laws about threads are left out", result.stdout)
        self.assertIn("0 passed, 0 failed, 1 skipped", result.stdout)


if shutil.which("oclgrind") is None:
    print("SKIPPED: oclgrind is not installed", file=sys.stderr)
    sys.exit(77)
program.main()
