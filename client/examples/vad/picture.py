# SPDX-License-Identifier: Apache-2.0
"""A PNG: for each recording its waveform, the probability of speech over it, and the stretches found."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

Array = npt.NDArray[Any]
Panel = tuple[str, Array, Array, Sequence[tuple[float, float]]]

WIDTH, PANEL, MARGIN, LABEL = 1400, 110, 10, 190
PAPER, WAVE, SHADE, CURVE, INK = (255, 255, 255), (120, 120, 130), (214, 236, 214), (200, 40, 40), (30, 30, 30)


def draw(path: pathlib.Path, panels: Sequence[Panel], seconds_shown: float) -> None:
    """panels: (name, samples, probabilities, stretches). All share the time axis, from 0 to seconds_shown."""
    image = Image.new("RGB", (WIDTH, len(panels) * PANEL + 30), PAPER)
    pen = ImageDraw.Draw(image)
    scale = (WIDTH - LABEL - MARGIN) / seconds_shown
    for row, (name, samples, probabilities, stretches) in enumerate(panels):
        top, bottom = row * PANEL + MARGIN, (row + 1) * PANEL
        for start, stop in stretches:
            pen.rectangle([LABEL + start * scale, top, LABEL + stop * scale, bottom], fill=SHADE)
        _waveform(pen, samples, scale, top, bottom)
        chunk = len(samples) / 16000 / max(1, len(probabilities))
        points = [(LABEL + (k + 0.5) * chunk * scale, bottom - p * (bottom - top)) for k, p in enumerate(probabilities)]
        pen.line(points, fill=CURVE, width=2)
        pen.text((MARGIN, top + 2), name, fill=INK)
        pen.text((MARGIN, top + 20), f"{sum(stop - start for start, stop in stretches):.1f} s of speech", fill=INK)
        pen.line([(LABEL, bottom), (WIDTH - MARGIN, bottom)], fill=(225, 225, 225))
    for second in range(int(seconds_shown) + 1):
        pen.text((LABEL + second * scale, len(panels) * PANEL + 10), f"{second}", fill=INK)
    image.save(path)


def _waveform(pen: ImageDraw.ImageDraw, samples: Array, scale: float, top: float, bottom: float) -> None:
    """The lowest and highest sample of each pixel column."""
    columns = max(1, int(len(samples) / 16000 * scale))
    middle, half = (top + bottom) / 2, (bottom - top) / 2
    loudest = max(1e-6, float(np.abs(samples).max()))
    for column, part in enumerate(np.array_split(samples / loudest, columns)):
        if len(part):
            x = LABEL + column
            pen.line([(x, middle - part.max() * half), (x, middle - part.min() * half)], fill=WAVE)
