# SPDX-License-Identifier: Apache-2.0
"""English spelling to phonemes through rnnserve, with the trained encoder and decoder of the PyPI package g2p-en.

Both are whole models on the server: letters go in and phonemes come out. A session for each word is fed its own output.

Prints, for every word, the phonemes from the server, those of the package's own formulas, whether they are equal, and
the largest difference between the two in any hidden state of any step.

exit status: 0 all equal and all states within 2e-5; 1 a difference; 2 no weights, or a call failed
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import package
import pronounce
from package import Array, Pronunciation, Weights

import rnnserve

TOLERANCE = 2e-5  # oneDNN is 9e-6 off the formulas in float32, the other engines 3e-6
Record = dict[str, Any]  # of a word, as --json prints it
WORDS = pathlib.Path(__file__).with_name("words.txt")


def state_difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest difference of two runs' hidden states; infinite where they have not the same number of steps."""
    worst = 0.0
    for mine, other in zip(ours, theirs):
        if mine.shape != other.shape:
            return np.inf
        difference = float(np.max(np.abs(mine - other)))
        worst = difference if not difference <= worst else worst  # a NaN stays
    return worst


def finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def compare(weights: Weights, words: Sequence[str], answers: Sequence[Pronunciation]) -> list[Record]:
    """One record a word: the two pronunciations and how far the runs are apart."""
    records: list[Record] = []
    for word, (phonemes, encoder, decoder) in zip(words, answers):
        expected, expected_encoder, expected_decoder = package.predict(weights, word)
        difference = state_difference((encoder, decoder), (expected_encoder, expected_decoder))
        records.append({"word": word, "server": phonemes, "package": expected, "equal": phonemes == expected,
                        "states": len(expected_encoder) + len(expected_decoder), "state_difference": difference})
    return records


def print_table(records: Sequence[Record]) -> None:
    columns: list[tuple[str, Callable[[Record], str]]] = [
        ("word", lambda r: r["word"]), ("phonemes from the server", lambda r: " ".join(r["server"])),
        ("from the package's formulas", lambda r: " ".join(r["package"])),
        ("equal", lambda r: "yes" if r["equal"] else "NO"), ("states", lambda r: f"{r['state_difference']:.0e}")]
    rows = [[title for title, _ in columns]] + [[cell(record) for _, cell in columns] for record in records]
    widths = [max(len(row[k]) for row in rows) for k in range(len(columns))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def read_words(arguments: argparse.Namespace) -> list[str]:
    if arguments.words:
        return [word.lower() for word in arguments.words]
    lines = (line.strip() for line in WORDS.read_text(encoding="utf-8").splitlines())
    return [line.lower() for line in lines if line and not line.startswith("#")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="g2p.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="words to pronounce (default: those of words.txt)")
    parser.add_argument("--address", default="127.0.0.1:50051", help="the server's HOST:PORT (default: %(default)s)")
    parser.add_argument("--engine", default="", help='"reference", "cpu", ... (default: the server chooses)')
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    words = read_words(arguments)
    try:
        weights = package.load_weights(package.find_weights())
        with rnnserve.Client(arguments.address, timeout=60) as client:
            pronounce.load_models(client, weights)
            answers = pronounce.pronounce(client, words, arguments.engine)
    except (FileNotFoundError, rnnserve.RnnServeError) as error:
        print(f"g2p.py: {error}", file=sys.stderr)
        return 2

    records = compare(weights, words, answers)
    unequal = sum(not record["equal"] for record in records)
    worst = float(np.max([record["state_difference"] for record in records]))  # a NaN stays
    good = unequal == 0 and all(record["state_difference"] <= TOLERANCE for record in records)
    if arguments.json:
        # JSON has no infinity and no NaN: a difference that is no number is null.
        for record in records:
            record["state_difference"] = finite(record["state_difference"])
        print(json.dumps({"words": records, "unequal": unequal, "state_difference": finite(worst), "good": good}))
    else:
        print_table(records)
        told = "all equal" if unequal == 0 else f"{unequal} NOT equal"
        states = sum(record["states"] for record in records)
        print(f"{len(records)} words, {told}; largest difference of {states} hidden states {worst:.1e} "
              f"({'within' if good else 'limit'} {TOLERANCE:.0e})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
