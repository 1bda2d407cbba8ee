# SPDX-License-Identifier: Apache-2.0
"""Recordings at 16 kHz: files of Debian's pocketsphinx-testdata, or of any folder, and voices of espeak-ng."""

import pathlib
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

RATE = 16000
TESTDATA = pathlib.Path("/usr/share/pocketsphinx/test/data")
# Headerless files of TESTDATA that are 16 kHz as well.
RAW = ("goforward.raw", "numbers.raw", "something.raw")
SPOKEN = [("en-us", "The server keeps the state, and the client keeps talking."),
          ("en-gb", "Nothing is lost. Nothing is counted twice."),
          ("de", "Jeder Abschnitt zählt genau einmal."),
          ("fr", "Le réseau se souvient de tout ce qu'il a entendu."),
          ("es", "Una voz, otra voz, y el silencio entre las dos."),
          ("it", "Il silenzio è la parte più facile.")]


def read(path: pathlib.Path) -> Array:
    """Mono samples in [-1, 1), float32, at 16 kHz. `.raw` is 16 bit at 16 kHz."""
    if path.suffix == ".raw":
        return np.frombuffer(path.read_bytes(), "<i2").astype(np.float32) / 32768
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            raise ValueError(f"{path} has {8 * file.getsampwidth()} bits a sample; only 16 are read")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        mono: Array = samples.reshape(-1, file.getnchannels()).mean(axis=1)
        rate = file.getframerate()
    if rate == RATE:
        return mono
    places = np.arange(int(len(mono) * RATE / rate)) * (rate / RATE)
    resampled = np.zeros(len(places), np.float32)
    resampled[:] = np.interp(places, np.arange(len(mono)), mono)
    return resampled


def collect(folders: Sequence[str], most: int) -> list[tuple[str, Array]]:
    """(name, samples) of the folders' files, or of TESTDATA and espeak-ng where they are installed; at most `most`."""
    if folders:
        paths = [path for folder in folders for path in sorted(pathlib.Path(folder).rglob("*"))
                 if path.suffix == ".wav" or path.name in RAW]
    else:
        paths = [path for path in sorted(TESTDATA.rglob("*")) if path.suffix == ".wav" or path.name in RAW]
    found = [("_".join(path.stem.split("_")[-2:]), read(path)) for path in paths[:most]]
    if not folders and shutil.which("espeak-ng"):
        found += [(f"espeak-ng {voice}", speak(voice, text)) for voice, text in SPOKEN[:most - len(found)]]
    if not found:
        raise FileNotFoundError(f"no recordings in {', '.join(map(str, folders)) or TESTDATA}; "
                                "apt-get install pocketsphinx-testdata espeak-ng, or name a folder with --recordings")
    return found


def speak(voice: str, text: str) -> Array:
    """A synthetic voice, with half a second of silence around it."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "voice.wav"
        subprocess.run(["espeak-ng", "-v", voice, "-w", path, text], check=True, capture_output=True)
        return np.pad(read(path), RATE // 2)
