# SPDX-License-Identifier: Apache-2.0
"""The examples of sessions: speech in recordings, and words spelt by a decoder that is fed its own output."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
from conftest import BINARY, REPOSITORY

EXAMPLES = REPOSITORY / "client" / "examples"
RNNCTL = BINARY.parent.parent / "client" / "rnnctl" / "rnnctl"


def run(*command, cwd=None):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300, cwd=cwd,
                          check=False)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """silero_vad.onnx of the version that the example names, with the package's other files beside it."""
    wanted = re.search(r"^silero-vad==\S+", (EXAMPLES / "vad" / "package.txt").read_text(), re.MULTILINE).group()
    folder = tmp_path_factory.mktemp("silero")
    done = run("-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", folder, wanted)
    if done.returncode != 0:
        pytest.skip(f"pip cannot get {wanted}: {done.stderr.strip().splitlines()[-1:]}")
    wheel, = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / "silero_vad" / "data" / "silero_vad.onnx"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Debian's pocketsphinx-testdata, installed or fetched."""
    installed = pathlib.Path("/usr/share/pocketsphinx/test/data")
    if installed.exists():
        return installed
    folder = tmp_path_factory.mktemp("testdata")
    done = subprocess.run("apt-get download -q pocketsphinx-testdata && dpkg-deb -x pocketsphinx-testdata_*.deb .",
                          shell=True, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"apt cannot get pocketsphinx-testdata: {done.stderr.strip().splitlines()[-1:]}")
    return folder


def test_speech_in_many_recordings(address, detector, recordings, tmp_path):
    missing = [name for name in ("onnx", "onnxruntime", "PIL") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} missing: pip install -r client/examples/vad/requirements.txt")
    picture = tmp_path / "speech.png"
    done = run(EXAMPLES / "vad" / "vad.py", "--address", address, "--rnnctl", RNNCTL, "--model", detector,
               "--recordings", recordings, "--picture", picture, "--checkpoint_every", 20, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["good"] and max(report["h"], report["c"], report["probability"]) <= 1e-4
    assert report["chunks"] > 1000 and report["largest_c"] > 10, "states as large as real speech makes them"
    speech = {record["name"]: record["speech"] for record in report["recordings"]}
    assert len(speech) >= 10 and all(speech.values()), "somebody speaks in every recording"
    (start, stop), = speech["goforward"]  # "go forward ten meters": half a second of silence before and after it
    assert 0.3 < start < 0.7 and 2.0 < stop < 2.6
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000


@pytest.mark.parametrize("width", [1, 4])
def test_words_by_sessions_and_a_beam(address, width):
    words = ["pronunciation", "cat", "Nguyen", "a", "activationist", "server", "antidisestablishmentarianism"]
    done = run(EXAMPLES / "g2p" / "spell.py", "--address", address, "--width", width, "--json", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["good"] and report["unequal"] == report["less"] == 0 and report["rows_selected"] > 20
    assert [record["word"] for record in report["words"]] == [word.lower() for word in words]
    for record in report["words"]:
        assert record["server"] == record["package"] and record["beam_score"] >= record["greedy_score"] - 1e-4
    assert report["better"] == 0 if width == 1 else report["better"] >= 2


def test_the_tables(address):
    done = run(EXAMPLES / "g2p" / "spell.py", "--address", address, "cat", "pronunciation")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^cat +K AE1 T \(0\.98\) +K AE1 T \(0\.98\)$", done.stdout, re.MULTILINE)
    assert re.search(r"^pronunciation .* another$", done.stdout, re.MULTILINE)
    assert "at least as probable for 2 of 2 words, more so for 1" in done.stdout


def test_what_is_missing_is_said(address, tmp_path):
    done = run(EXAMPLES / "vad" / "vad.py", "--address", address, "--model", tmp_path / "none.onnx",
               "--recordings", tmp_path)
    assert done.returncode == 2 and "no recordings in" in done.stderr
