# SPDX-License-Identifier: Apache-2.0
"""The parts of the speech example that need neither network nor server."""

import sys
import wave

import numpy as np
import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "client" / "examples" / "vad"))

import recordings  # noqa: E402
import segments  # noqa: E402


@pytest.mark.parametrize("probabilities, expected", [
    ([0, 0, 0], []),
    ([0.1, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1], [(1, 4)]),
    ([0.6, 0.4, 0.4, 0.36, 0.1, 0.1], [(0, 4)]),  # goes on above the lower threshold
    ([0.4] * 6, []),  # and does not begin there
    ([0.6, 0.6, 0.6, 0.1, 0.6, 0.6, 0.6, 0.1], [(0, 7)]),  # a gap as short as that is bridged
    ([0.6, 0.6, 0.6, 0.1, 0.1, 0.6, 0.6, 0.6], [(0, 3), (5, 8)]),
    ([0.1, 0.6, 0.1, 0.1, 0.1], []),  # too short to be speech
    ([0.6] * 4, [(0, 4)]),  # until the end
])
def test_stretches_of_speech(probabilities, expected):
    chunk = 0.125
    assert segments.speech(probabilities, chunk) == [(start * chunk, stop * chunk) for start, stop in expected]


@pytest.mark.parametrize("rate, channels", [(16000, 1), (8000, 1), (22050, 2)])
def test_files_of_other_rates_are_read_at_16_khz(tmp_path, rate, channels):
    seconds = np.arange(rate) / rate
    tone = np.repeat(np.round(8000 * np.sin(2 * np.pi * 200 * seconds)).astype("<i2"), channels)
    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(tone.tobytes())
    samples = recordings.read(tmp_path / "tone.wav")
    expected = 8000 / 32768 * np.sin(2 * np.pi * 200 * np.arange(16000) / 16000)
    assert samples.dtype == np.float32 and abs(len(samples) - 16000) <= 1
    np.testing.assert_allclose(samples[:15900], expected[:15900], atol=2e-3)
