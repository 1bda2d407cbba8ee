# SPDX-License-Identifier: Apache-2.0
"""Style rules that a machine keeps, without a build:

    python3 style_test.py ROOT

- C++ is formatted as clang-format 14 with .clang-format formats it.
- Comments and docs name their actor: the caller, the connection, the thread; not the words of ACTOR. Nor do they have former
  names of things that docs/architecture.md calls otherwise (FORMER).
"""
import pathlib
import re
import subprocess
import sys
import unittest

CLANG_FORMAT = ".venv/bin/clang-format"  # 14, as in tests/requirements.txt
CPP = (".cc", ".h", ".c", ".cu", ".cuh")
ACTOR = re.compile(r"\b(who|whoever|whom|somebody|nobody|everybody|anybody|someone|everyone|anyone)\b", re.IGNORECASE)
FORMER = re.compile(r"\b(lobby|door|lookout|trial window|body line)\b", re.IGNORECASE)
COMMENT = {".cc": "//", ".h": "//", ".c": "//", ".cu": "//", ".cuh": "//", ".proto": "//", ".py": "#", ".sh": "#"}
PLACES = ("base", "engine", "onnx_file", "server", "client", "proto", "docs", "tests", "README.md", "CONTRIBUTING.md")


def tracked(root, *places):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "--", *places], check=True,
                            capture_output=True, text=True).stdout.split()
    return [path for path in listed if (pathlib.Path(root) / path).is_file()]


def sentences(path, text):
    """The parts of a file that people read: (line number, text)."""
    mark = COMMENT.get(pathlib.Path(path).suffix)
    for number, line in enumerate(text.splitlines(), 1):
        if mark is None:
            yield number, line
        elif mark in line:
            yield number, line.split(mark, 1)[1]


def without_actor(path, text):
    return [number for number, line in sentences(path, text) if ACTOR.search(line) or FORMER.search(line)]


class StyleTest(unittest.TestCase):
    root = "."

    def test_cpp_is_formatted(self):
        program = pathlib.Path(self.root, CLANG_FORMAT).resolve()
        self.assertTrue(program.exists(), f"no {CLANG_FORMAT}: ./setup.sh --tests installs it")
        files = [path for path in tracked(self.root) if path.endswith(CPP)]
        done = subprocess.run([program, "--dry-run", "-Werror", *files], cwd=self.root, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"run {CLANG_FORMAT} -i on these:\n{done.stderr[:4000]}")

    def test_sentences_name_their_actor(self):
        found = []
        for path in tracked(self.root, *PLACES):
            if path.endswith((*COMMENT, ".md")):
                text = (pathlib.Path(self.root) / path).read_text(encoding="utf-8")
                found += [f"{path}:{number}" for number in without_actor(path, text)]
        self.assertFalse(found, "name the actor (the caller, the connection, the thread), by today's names, in " + ", ".join(found))

    def test_notices_a_sentence_without_actor(self):
        self.assertEqual(without_actor("a.cc", "int who;  // whoever waits\n// fine\nf(); // nobody's\n"), [1, 3])
        self.assertEqual(without_actor("a.md", "Who waits\nin the lobby\n"), [1, 2])
        self.assertEqual(without_actor("a.py", "nobody = 1  # a thread whose turn it is\n"), [])


if __name__ == "__main__":
    StyleTest.root = sys.argv.pop(1)
    unittest.main()
