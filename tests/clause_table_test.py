# SPDX-License-Identifier: Apache-2.0
"""Holds docs/sessions.md to what is there: each test that its table of clauses names exists, so does each planted fault,
and no planted fault is missing from it.

    python3 clause_table_test.py ROOT
"""
import pathlib
import re
import sys
import unittest

TITLE = "## Clause by clause"


def rows_of(text):
    """The table below the title: [clause, tests, faults] each."""
    lines = text.split(TITLE, 1)[1].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return rows[2:]


class Tree:
    def __init__(self, root):
        self.root = root
        files = [file for file in (root / "tests").rglob("*") if file.suffix in (".cc", ".py", ".txt") and file.is_file()]
        self.texts = {file.name: file.read_text(encoding="utf-8") for file in files if file.suffix == ".py"}
        self.programs = set(re.findall(r"rnnserve_test\((\w+)", "\n".join(
            file.read_text(encoding="utf-8") for file in files if file.name == "CMakeLists.txt")))
        self.cases = set()
        for file in files:
            if file.suffix == ".cc":
                self.cases |= set(re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text(encoding="utf-8"), re.M))
        self.faults = set(re.findall(r'FaultName\{\w+::\w+, "(\w+)"\}', "\n".join(
            file.read_text(encoding="utf-8") for file in (root / "tests").rglob("fault.h"))))

    def problem(self, name, last):
        """What is wrong with one reference, or None. `last`: the file and suite that the one before it named."""
        name = name.removesuffix("...")
        if "::" in name:
            file, case = name.split("::")
            last["file"] = file or last["file"]
            text = self.texts.get(last["file"])
            if text is None:
                return f"there is no {last['file']}"
            return None if re.search(rf"^def {case}", text, re.M) else f"{last['file']} has no {case}"
        if name.endswith(".py"):
            last["file"] = name
            return None if name in self.texts else f"there is no {name}"
        if "." in name:
            suite, case = name.split(".")
            last["suite"] = suite or last["suite"]
            known = any(suite == last["suite"] and full.startswith(case) for suite, full in self.cases)
            return None if known else f"{last['suite']} has no {case}"
        return None if name in self.programs else f"there is no program {name}"


def problems(text, tree):
    found, told = [], set()
    for row in rows_of(text):
        if len(row) != 3:
            found.append(f"a row of {len(row)} cells: {row}")
            continue
        clause, tests, faults = row
        last = {"file": None, "suite": None}
        names = re.findall(r"`([^`]+)`", tests)
        found += [f"{clause}: no test"] if not names and "simulator" not in tests else []
        found += [f"{clause}: {wrong}" for wrong in (tree.problem(name, last) for name in names) if wrong]
        planted = {fault.strip() for fault in faults.split(",") if fault.strip()}
        found += [f"{clause}: no fault is called {fault}" for fault in sorted(planted - tree.faults)]
        told |= planted
    return found + [f"the table does not name the planted fault {fault}" for fault in sorted(tree.faults - told)]


class ClauseTable(unittest.TestCase):
    root = None

    def setUp(self):
        self.tree = Tree(self.root)
        self.text = (self.root / "docs" / "sessions.md").read_text(encoding="utf-8")

    def test_the_table_is_true(self):
        self.assertGreater(len(rows_of(self.text)), 20)
        self.assertEqual(problems(self.text, self.tree), [])

    def test_what_is_not_there_is_noticed(self):
        for wrong in ("`no_such_test`", "`SessionLifeTest.NoSuch`", "`test_sessions.py::test_no_such`", "`no_such.py`", ""):
            text = f"{self.text.rstrip()}\n| a clause | {wrong} | |\n"
            self.assertEqual(len(problems(text, self.tree)), 1, wrong)
        self.assertEqual(len(problems(self.text.replace("TornCommit", "TornSwap"), self.tree)),
                         1 + self.text.split(TITLE)[1].count("TornCommit"))


if __name__ == "__main__":
    ClauseTable.root = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
