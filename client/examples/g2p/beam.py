# SPDX-License-Identifier: Apache-2.0
"""A beam search in sessions of the decoder: a row for each hypothesis, and rows of each step selected from those before."""

import concurrent.futures
import dataclasses
from collections.abc import Sequence

import numpy as np
import package
import pronounce
from package import Array

from rnnserve import Client, Session


@dataclasses.dataclass
class Hypothesis:
    """A beginning of a pronunciation; `row` of the session holds its state once its last token has been fed."""

    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0
    row: int = 0

    @property
    def ended(self) -> bool:
        return self.tokens[-1:] == (package.END,)


class Beam:
    """The search of one word. The session has a row for each hypothesis that goes on; SelectRows makes each step's rows
    out of those of the step before: some go on twice, some not at all.

    The greedy choice keeps a place of its own among `width`, so that what is found is never less probable than it.
    """

    def __init__(self, session: Session, width: int) -> None:
        self._session, self._width = session, width
        self._going = [Hypothesis()]
        self._best: Hypothesis | None = None
        self._greedy_goes_on = True  # as the first of _going
        self._answer: concurrent.futures.Future[dict[str, Array]] | None = None
        self.rows_selected = 0

    def feed(self) -> None:
        """Sends each hypothesis's last token, behind the rows it needs; waits for neither."""
        if not self._going:
            return
        rows = [hypothesis.row for hypothesis in self._going]
        if self._going[0].tokens:
            self._session.select_rows_async(rows)
            self.rows_selected += len(rows)
        last = [hypothesis.tokens[-1] if hypothesis.tokens else package.BEGIN for hypothesis in self._going]
        self._answer = self._session.feed_async(np.array([last]))

    def take(self) -> None:
        """The answer of feed: the next, most probable hypotheses."""
        if not self._going or self._answer is None:
            return
        answer = self._answer.result()
        tokens, scores = answer["phonemes"][0], answer["log_probabilities"][0]  # [rows, TOP], the most probable first
        totals = scores + np.array([[hypothesis.log_probability] for hypothesis in self._going])
        # The first row is the greedy one, as long as it goes on; its own best continuation comes first again.
        greedy = [(0, 0)] if self._greedy_goes_on else []
        best = [divmod(int(place), scores.shape[1]) for place in np.argsort(-totals, axis=None)[:2 * self._width]]
        chosen = (greedy + [pair for pair in best if pair not in greedy])[:self._width]
        extended = [Hypothesis(self._going[row].tokens + (int(tokens[row, place]),), float(totals[row, place]), row)
                    for row, place in chosen]
        for hypothesis in extended:
            if hypothesis.ended:
                self.offer(hypothesis)
        # Probabilities only fall: what is below one that has ended cannot win any more.
        self._going = [hypothesis for hypothesis in extended if not hypothesis.ended and
                       (self._best is None or hypothesis.log_probability > self._best.log_probability)]
        self._greedy_goes_on = bool(greedy) and extended[0] in self._going

    def offer(self, hypothesis: Hypothesis) -> None:
        if self._best is None or hypothesis.log_probability > self._best.log_probability:
            self._best = hypothesis

    def result(self) -> Hypothesis:
        """The most probable Hypothesis; what has not ended by now counts as it is."""
        for hypothesis in self._going:
            self.offer(hypothesis)
        assert self._best is not None
        return self._best


def search(client: Client, words: Sequence[str], width: int) -> tuple[list[Hypothesis], int]:
    """For every word the most probable Hypothesis found, and how many rows were selected on the way; width at most TOP."""
    _, h, _ = pronounce.encode(client, words)
    sessions = pronounce.open_sessions(client, h, ["phonemes", "log_probabilities"])
    beams = [Beam(session, width) for session in sessions]
    for _ in range(package.MOST_PHONEMES):
        for beam in beams:
            beam.feed()
        for beam in beams:
            beam.take()
    for session in sessions:
        session.close()
    return [beam.result() for beam in beams], sum(beam.rows_selected for beam in beams)
