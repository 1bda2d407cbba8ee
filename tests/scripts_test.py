# SPDX-License-Identifier: Apache-2.0
"""demo.sh, setup.sh and test.sh tell what they take, and refuse anything else before they install or build.

    python3 scripts_test.py ROOT
"""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
TAKES = {
    "demo.sh": ["--pinyin", "--text", "--beam", "--speech"],
    "setup.sh": ["--tests", "--speech", "--campaigns", "--server"],
    "test.sh": ["release", "asan-ubsan", "tsan", "campaigns"],
}
REFUSES = {
    "demo.sh": ["--nonsense", "--beam --nonsense=1", "--speech --beam", "--pinyin --nonsense", "word --nonsense"],
    "setup.sh": ["--nonsense", "nonsense", "--tests --speech"],
    "test.sh": ["--nonsense", "nonsense", "tsan release"],
}


def run(script, *arguments):
    return subprocess.run([ROOT / script, *arguments], capture_output=True, text=True, timeout=20, check=False)


class Scripts(unittest.TestCase):
    def test_help_names_each_argument(self):
        for script, arguments in TAKES.items():
            done = run(script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            for argument in arguments:
                self.assertRegex(done.stdout, rf"(?m)^ +\./{script} {argument}\b")
            self.assertNotIn("set -euo", done.stdout)

    def test_unknown_arguments_are_refused(self):
        for script, lines in REFUSES.items():
            for line in lines:
                done = run(script, *line.split())
                self.assertEqual((done.returncode, done.stdout), (2, ""), f"{script} {line}")
                self.assertIn(f"see {script} --help", done.stderr)


if __name__ == "__main__":
    unittest.main()
