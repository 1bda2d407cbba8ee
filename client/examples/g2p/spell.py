# SPDX-License-Identifier: Apache-2.0
"""The trained decoder of g2p-en as sessions of a server: greedy, and with a beam search that selects rows.

Every word is a session that starts from the encoder's final state and is fed its own output, step by step, all words at
once. Prints both pronunciations with their probabilities. Checked: greedy phonemes and hidden states against the
package's own formulas, each probability against those, and that the beam's is at least the greedy one's for every word.

exit status: 0 all of that holds; 1 something does not; 2 no weights, or a call failed
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence

import beam
import g2p
import package
import pronounce
from beam import Hypothesis
from g2p import Record
from package import Pronunciation, Weights

import rnnserve

SCORE_TOLERANCE = 1e-4  # of a logarithm of a probability


def score(weights: Weights, word: str, phonemes: Sequence[str]) -> float:
    """The logarithm of the greedy pronunciation's probability, by the package's formulas."""
    tokens = [package.PHONEMES.index(phoneme) for phoneme in phonemes]
    return package.log_probability(weights, word, tokens + [package.END] * (len(tokens) < package.MOST_PHONEMES))


def compare(weights: Weights, words: Sequence[str], greedy: Sequence[Pronunciation],
            beams: Sequence[Hypothesis]) -> list[Record]:
    records = g2p.compare(weights, words, greedy)
    for record, best in zip(records, beams):
        tokens = [token for token in best.tokens if token != package.END]
        record["greedy_score"] = score(weights, record["word"], record["server"])
        record["beam"] = [package.PHONEMES[token] for token in tokens]
        record["beam_score"] = package.log_probability(weights, record["word"], list(best.tokens))
        record["score_difference"] = abs(record["beam_score"] - best.log_probability)
        record["at_least"] = record["beam_score"] >= record["greedy_score"] - SCORE_TOLERANCE
    return records


def print_table(records: Sequence[Record]) -> None:
    def pronunciation(phonemes: Sequence[str], value: float) -> str:
        return f"{' '.join(phonemes)} ({math.exp(value):.2f})"

    rows = [("word", "greedy (probability)", "beam search", "")]
    for record in records:
        found = "another" if record["beam"] != record["server"] else ""
        rows.append((record["word"], pronunciation(record["server"], record["greedy_score"]),
                     pronunciation(record["beam"], record["beam_score"]),
                     found if record["at_least"] else "LESS PROBABLE"))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(prog="spell.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="words to pronounce (default: those of words.txt)")
    parser.add_argument("--address", default="127.0.0.1:50051", help="the server's HOST:PORT (default: %(default)s)")
    parser.add_argument("--width", type=int, default=5, help="hypotheses of a word (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    if not 1 <= arguments.width <= pronounce.TOP:
        parser.error(f"--width is 1 to {pronounce.TOP}")
    words = g2p.read_words(arguments)
    try:
        weights = package.load_weights(package.find_weights())
        with rnnserve.Client(arguments.address, timeout=60) as client:
            pronounce.load_models(client, weights)
            greedy = pronounce.pronounce(client, words)
            beams, selected = beam.search(client, words, arguments.width)
    except (FileNotFoundError, rnnserve.RnnServeError) as error:
        print(f"spell.py: {error}", file=sys.stderr)
        return 2

    records = compare(weights, words, greedy, beams)
    unequal = sum(not record["equal"] for record in records)
    states = max(record["state_difference"] for record in records)
    scores = max(record["score_difference"] for record in records)
    less = sum(not record["at_least"] for record in records)
    better = sum(record["beam_score"] > record["greedy_score"] + SCORE_TOLERANCE for record in records)
    good = unequal == less == 0 and states <= g2p.TOLERANCE and scores <= SCORE_TOLERANCE
    if arguments.json:
        print(json.dumps({"words": records, "unequal": unequal, "less": less, "better": better,
                          "rows_selected": selected, "good": good}))
        return 0 if good else 1
    print_table(records)
    print(f"{len(records)} words, greedy {'all as' if unequal == 0 else f'{unequal} NOT as'} the package says; largest "
          f"difference of hidden states {states:.1e}, of logarithms of probabilities {scores:.1e}")
    print(f"beam of {arguments.width}: at least as probable for {len(records) - less} of {len(records)} words, more so "
          f"for {better}; {selected} rows selected")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
