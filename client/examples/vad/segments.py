# SPDX-License-Identifier: Apache-2.0
"""From a probability for every chunk to stretches of speech, with the thresholds that silero-vad uses by default."""

from collections.abc import Sequence

Stretch = tuple[float, float]  # from, to, in seconds

START, GO_ON = 0.5, 0.35
SHORTEST_SPEECH, SHORTEST_SILENCE = 0.25, 0.1  # seconds


def speech(probabilities: Sequence[float], chunk_seconds: float) -> list[Stretch]:
    """[(from, to)] in seconds: begins at START, goes on above GO_ON; short gaps are bridged, short bursts dropped."""
    stretches: list[Stretch] = []
    begin: float | None = None
    silent_since: float | None = None
    for index, probability in enumerate(probabilities):
        now = index * chunk_seconds
        if begin is None:
            if probability >= START:
                begin, silent_since = now, None
        elif probability >= GO_ON:
            silent_since = None
        elif silent_since is None:
            silent_since = now
        elif now - silent_since >= SHORTEST_SILENCE:
            stretches.append((begin, silent_since))
            begin = None
    if begin is not None:
        stretches.append((begin, len(probabilities) * chunk_seconds if silent_since is None else silent_since))
    return [(start, stop) for start, stop in stretches if stop - start >= SHORTEST_SPEECH]
