# SPDX-License-Identifier: Apache-2.0
"""Runs what client/python/README.md shows, and looks for what its comments say is printed."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "tests" / "integration"))
import stack_graphs  # noqa: E402

README = REPOSITORY / "client" / "python" / "README.md"
STAND_IN = pathlib.Path(__file__).resolve().parent / "stand_in"
BLOCK = re.compile(r"^<!-- run by: \S*/test_python_readme\.py[^\n]*-->\n```(\w*)\n(.*?)^```$", re.M | re.S)
BLOCKS = BLOCK.findall(README.read_text(encoding="utf-8"))


def test_nothing_is_left_out():
    text = README.read_text(encoding="utf-8")
    fences, left_out = text.count("\n```") // 2, text.count("<!-- not run: needs torch;")
    assert left_out == 1
    assert len(BLOCKS) == fences - 1 - left_out >= 7, "all but the installation, which test_distributions.py runs"


@pytest.mark.parametrize("language, code", BLOCKS, ids=range(len(BLOCKS)))
def test_what_the_readme_shows(address, tmp_path, language, code):
    (tmp_path / "token").write_text("secret\n")
    encoder = stack_graphs.Stack(("LSTM", "LSTM"), batch_first=True, states="sliced", finals="joined", hidden_sizes=(8, 8))
    (tmp_path / "encoder.onnx").write_bytes(stack_graphs.model(encoder).SerializeToString())
    environment = dict(os.environ)
    if importlib.util.find_spec("torch") is None:
        environment["PYTHONPATH"] = os.pathsep.join([str(STAND_IN), *filter(None, [environment.get("PYTHONPATH")])])
    text, replaced = re.subn(r"localhost:50051", address, code)
    assert replaced == 1
    command = [sys.executable, "-c", text] if language == "python" else [sys.executable, *text.split()[1:]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for told in re.findall(r"print\(.*# ([A-Z_]+ \S+|\([\d, ]+\))", code):
        assert told in done.stdout, f"{told} is not in\n{done.stdout}"
