# SPDX-License-Identifier: Apache-2.0
"""The decoder as sessions: one for each word, opened with the encoder's final state and fed its own output."""

import dataclasses

import numpy as np
import package
import pronounce


def open_all(client, weights, words):
    """(sessions, Y, lens): the encoder runs all words in one request, and each word's last state starts a session."""
    Y, h, lens = pronounce.encode(client, weights, words)
    sessions = [client.session(pronounce.DECODER, state={"initial_h": h[:, k:k + 1]}, outputs=["Y_h"])
                for k in range(len(words))]
    return sessions, Y, lens


def greedy(client, weights, words):
    """For every word (phonemes, encoder states, decoder states), as package.predict gives them."""
    sessions, Y, lens = open_all(client, weights, words)
    phonemes, states = [[] for _ in words], [[] for _ in words]
    going = {k: package.BEGIN for k in range(len(words))}  # words that are not finished, and their last token
    for _ in range(package.MOST_PHONEMES):
        futures = {k: sessions[k].feed_async(weights["dec_emb"][[token]][None]) for k, token in going.items()}
        h = {k: future.result()["Y_h"][0] for k, future in futures.items()}
        for k in list(going):
            states[k].append(h[k][0])
            going[k] = int(package.log_probabilities(weights, h[k]).argmax())
            if going[k] == package.END:
                del going[k]
            else:
                phonemes[k].append(package.PHONEMES[going[k]])
    for session in sessions:
        session.close()
    return [(phonemes[k], Y[:lens[k], 0, k], np.array(states[k])) for k in range(len(words))]


@dataclasses.dataclass
class Hypothesis:
    """A beginning of a pronunciation; `row` of the session holds its state once its last token has been fed."""

    tokens: tuple = ()
    log_probability: float = 0.0
    row: int = 0

    @property
    def ended(self):
        return self.tokens[-1:] == (package.END,)


class Beam:
    """The search of one word. The session has a row for each hypothesis that goes on; SelectRows makes each step's rows
    out of those of the step before: some go on twice, some not at all.

    The greedy choice keeps a place of its own among `width`, so that what is found is never less probable than it.
    """

    def __init__(self, session, weights, width):
        self._session, self._weights, self._width = session, weights, width
        self._going, self._best = [Hypothesis()], None
        self._greedy_goes_on = True  # as the first of _going
        self._answer = None
        self.rows_selected = 0

    def feed(self):
        """Sends each hypothesis's last token, behind the rows it needs; waits for neither."""
        if not self._going:
            return
        rows = [hypothesis.row for hypothesis in self._going]
        if self._going[0].tokens:
            self._session.select_rows_async(rows)
            self.rows_selected += len(rows)
        last = [hypothesis.tokens[-1] if hypothesis.tokens else package.BEGIN for hypothesis in self._going]
        self._answer = self._session.feed_async(self._weights["dec_emb"][last][None])

    def take(self):
        """The answer of feed: the next, most probable hypotheses."""
        if not self._going:
            return
        scores = package.log_probabilities(self._weights, self._answer.result()["Y_h"][0])
        totals = scores + np.array([[hypothesis.log_probability] for hypothesis in self._going])
        # The first row is the greedy one, as long as it goes on; its own best continuation comes first again.
        greedy = [(0, int(scores[0].argmax()))] if self._greedy_goes_on else []
        best = [divmod(int(place), scores.shape[1]) for place in np.argsort(-totals, axis=None)[:2 * self._width]]
        chosen = (greedy + [pair for pair in best if pair not in greedy])[:self._width]
        extended = [Hypothesis(self._going[row].tokens + (token,), float(totals[row, token]), row)
                    for row, token in chosen]
        for hypothesis in extended:
            if hypothesis.ended:
                self.offer(hypothesis)
        # Probabilities only fall: what is below one that has ended cannot win any more.
        self._going = [hypothesis for hypothesis in extended if not hypothesis.ended and
                       (self._best is None or hypothesis.log_probability > self._best.log_probability)]
        self._greedy_goes_on = bool(greedy) and extended[0] in self._going

    def offer(self, hypothesis):
        if self._best is None or hypothesis.log_probability > self._best.log_probability:
            self._best = hypothesis

    def result(self):
        """The most probable Hypothesis; what has not ended by now counts as it is."""
        for hypothesis in self._going:
            self.offer(hypothesis)
        return self._best


def beam_search(client, weights, words, width):
    """For every word the most probable Hypothesis found, and how many rows were selected on the way."""
    sessions, _, _ = open_all(client, weights, words)
    beams = [Beam(session, weights, width) for session in sessions]
    for _ in range(package.MOST_PHONEMES):
        for beam in beams:
            beam.feed()
        for beam in beams:
            beam.take()
    for session in sessions:
        session.close()
    return [beam.result() for beam in beams], sum(beam.rows_selected for beam in beams)
