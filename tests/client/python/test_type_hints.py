# SPDX-License-Identifier: Apache-2.0
"""mypy and pyright, both strict, over the package, the examples and a user's program (typed_program.py)."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "client" / "python"
EXAMPLES = PACKAGE.parent / "examples"


def run(*command, cwd=PACKAGE):
    """pyright takes the packages of the first python on the PATH."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])}
    return subprocess.run([sys.executable, "-m", *map(str, command)], cwd=cwd, env=environment, capture_output=True,
                          text=True, timeout=300, check=False)


def test_mypy(tmp_path):
    done = run("mypy", "--config-file=pyproject.toml", f"--cache-dir={tmp_path}", "rnnserve", EXAMPLES / "g2p",
               EXAMPLES / "vad", EXAMPLES / "pinyin",
               EXAMPLES / "language_model", EXAMPLES / "bulk" / "scorer.py", EXAMPLES / "bulk" / "progress.py",
               EXAMPLES / "generic_call.py", HERE / "typed_program.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright():
    """The same files, which pyproject.toml names."""
    done = run("pyright", "--warnings")
    assert done.returncode == 0 and "0 errors, 0 warnings" in done.stdout, done.stdout + done.stderr
