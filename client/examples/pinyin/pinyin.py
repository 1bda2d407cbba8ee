# SPDX-License-Identifier: Apache-2.0
"""Mandarin sentences to pinyin through rnnserve, with the trained network of the PyPI package g2pM.

The network is one whole model on the server (embedding, bidirectional LSTM, two linear layers): all sentences go up in one
request, as characters, and the reading of every character comes down.

Prints, for every sentence, the pinyin from the server and whether it is what the package answers, and the largest
difference of the logits of all characters that have several readings.

exit status: 0 all equal and all logits within 1e-4; 1 a difference; 2 no package, or a call failed
"""

import argparse
import json
import pathlib
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import mandarin
import numpy as np

import rnnserve

TOLERANCE = 1e-4  # logits reach 122, and float32 has 7 digits
MODEL = "g2pM"
SENTENCES = pathlib.Path(__file__).with_name("sentences.txt")
Record = dict[str, Any]  # of a sentence, as --json prints it


def read(client: rnnserve.Client, network: Any, sentences: Sequence[str], engine: str = "") -> list[Record]:
    """One record a sentence: the server's pinyin, the package's, and how far their logits are apart."""
    tokens, lengths = mandarin.tokens(network, sentences)
    inputs = {"tokens": tokens, "sequence_lens": lengths}
    outputs = client.infer(model=MODEL, inputs=inputs, outputs=["readings", "logits"], engine=engine).outputs
    records: list[Record] = []
    for row, sentence in enumerate(sentences):
        answer, logits = mandarin.expected(network, sentence)
        ours = outputs["logits"][mandarin.choices(network, sentence), row]
        found = mandarin.pinyin(network, sentence, outputs["readings"][:, row])
        difference = float(np.max(np.abs(ours - logits), initial=0)) if ours.shape == logits.shape else float("inf")
        records.append({"sentence": sentence, "server": found, "package": answer, "equal": found == answer,
                        "choices": len(logits), "difference": difference})
    return records


def print_table(records: Sequence[Record]) -> None:
    def wide(text: str) -> int:
        return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)

    width = max(wide(record["sentence"]) for record in records)
    for record in records:
        padding = " " * (width - wide(record["sentence"]))
        print(f"{record['sentence']}{padding}  {'equal' if record['equal'] else 'NOT  '}  {' '.join(record['server'])}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="pinyin.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*", help="sentences to read (default: those of sentences.txt)")
    parser.add_argument("--address", default="127.0.0.1:50051", help="the server's HOST:PORT (default: %(default)s)")
    parser.add_argument("--engine", default="", help='"reference", "cpu", ... (default: the server chooses)')
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    sentences: list[str] = [line for line in arguments.sentences if line]
    sentences = sentences or SENTENCES.read_text(encoding="utf-8").split()
    try:
        network = mandarin.package()
        with rnnserve.Client(arguments.address, timeout=60) as client:
            client.load(MODEL, mandarin.file(network))
            records = read(client, network, sentences, arguments.engine)
    except (FileNotFoundError, rnnserve.RnnServeError) as error:
        print(f"pinyin.py: {error}", file=sys.stderr)
        return 2

    unequal = sum(not record["equal"] for record in records)
    worst = max(record["difference"] for record in records)
    good = unequal == 0 and all(record["difference"] <= TOLERANCE for record in records)
    if arguments.json:
        print(json.dumps({"sentences": records, "unequal": unequal, "difference": worst, "good": good}))
    else:
        print_table(records)
        told = "all equal" if unequal == 0 else f"{unequal} NOT equal"
        choices = sum(record["choices"] for record in records)
        print(f"{len(records)} sentences, {told} to the package's answers; largest difference of the logits of {choices} characters "
              f"with several readings {worst:.1e} ({'within' if good else 'limit'} {TOLERANCE:.0e})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
