# SPDX-License-Identifier: Apache-2.0
"""mypy and pyright, both strict, over the package, the examples and a user's program; and that nothing that a user can
reach is without a type."""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "client" / "python"
EXAMPLES = PACKAGE.parent / "examples"


def run(*command, cwd=PACKAGE):
    return subprocess.run([sys.executable, "-m", *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=300,
                          check=False)


def test_mypy(tmp_path):
    done = run("mypy", "--config-file=pyproject.toml", f"--cache-dir={tmp_path}", "rnnserve", EXAMPLES / "g2p",
               EXAMPLES / "vad", EXAMPLES / "generic_call.py", HERE / "typed_program.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright():
    """The same files, which pyproject.toml names."""
    done = run("pyright", f"--pythonpath={sys.executable}", "--warnings")
    assert done.returncode == 0 and "0 errors, 0 warnings" in done.stdout, done.stdout + done.stderr


def test_what_users_reach_has_types(tmp_path):
    """By pyright's count over the installed package."""
    done = run("pyright", f"--pythonpath={sys.executable}", "--verifytypes", "rnnserve", "--ignoreexternal", "--outputjson",
               cwd=tmp_path)
    report = json.loads(done.stdout)["typeCompleteness"]
    unknown = [symbol["name"] for symbol in report["symbols"]
               if symbol["isExported"] and not symbol["isTypeKnown"] and not symbol["name"].startswith("rnnserve.v1")]
    assert report["symbols"] and unknown == [], "\n".join(unknown)
