#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models: what the maps cost in a slice, and what a step of a language model with a vocabulary of 10,000 costs and
moves with logits and with top-k.

    tests/bench/whole_table.py [--rounds N] [--write]

The files are those of the examples (g2p-en, g2pM, the language model with random weights). The first table is
map_table's (one thread, no server), the second one client of the server and its relay; rounds are in turns, figures are
medians over them with the least and the largest. Needs what ./demo.sh installs.
"""

import argparse
import datetime
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import environment

for example in ("g2p", "pinyin", "language_model"):
    sys.path.insert(0, str(environment.ROOT / "client" / "examples" / example))
sys.path.insert(0, str(environment.HERE / "service"))
import files  # noqa: E402
import language_model  # noqa: E402
import mandarin  # noqa: E402
import network  # noqa: E402
import numpy as np  # noqa: E402
import package  # noqa: E402
import processes  # noqa: E402

import rnnserve  # noqa: E402

VOCABULARY, HIDDEN, TOP = 10_000, 128, 8
SIZES = ("1x1", "1x16", "32x16")
LINE = re.compile(r"T=(\d+) N=(\d+): (\S+) us a step and row, maps (\S+) %")


def write(folder):
    """The examples' files, and which outputs of each: what is shown -> map_table's argument."""
    weights = dict(np.load(package.find_weights()))
    content = {"encoder": files.encoder(weights), "decoder": files.decoder(weights, 8),
               "pinyin": mandarin.file(mandarin.package()),
               "text": network.file(network.start(VOCABULARY, HIDDEN), TOP)}
    for name, bytes_of in content.items():
        (folder / f"{name}.onnx").write_bytes(bytes_of)
    return {"g2p-en, encoder: embedding, GRU 256": f"{folder}/encoder.onnx",
            "g2p-en, decoder: embedding, GRU 256, linear 74, LogSoftmax, TopK": f"{folder}/decoder.onnx",
            "g2pM: embedding, bidirectional LSTM, 2 linear, ArgMax": f"{folder}/pinyin.onnx:readings",
            "language model, top 8 of 10,000": f"{folder}/text.onnx:next,log_probabilities",
            "language model, all 10,000 logits": f"{folder}/text.onnx:logits"}, content["text"]


def shown(values, digits):
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def map_rows(models, rounds):
    figures = {}
    for _ in range(rounds):
        for name, argument in models.items():
            done = subprocess.run([environment.program("tests/bench/map_table"), argument, *SIZES],
                                  capture_output=True, text=True, check=True)
            for steps, rows, total, share in LINE.findall(done.stdout):
                figures.setdefault((name, f"{steps}x{rows}"), []).append((float(total), float(share)))
    lines = ["| model | steps x rows of a slice | us a step and row | of it in maps, % |", "|---|---|---|---|"]
    for (name, size), values in figures.items():
        lines.append(f"| {name} | {size} | {shown([v[0] for v in values], 1)} | {shown([v[1] for v in values], 0)} |")
    return "\n".join(lines)


def wire_rows(server, content, rounds, seconds):
    with rnnserve.Client(server.address, timeout=60) as client:
        client.load(language_model.MODEL, content)
    figures = {}
    for _ in range(rounds):
        for sessions in (1, 16):
            for what, outputs in language_model.OUTPUTS.items():
                row = language_model.measure(server.address, outputs, sessions, seconds)
                figures.setdefault((what, sessions), []).append(row)
    lines = ["| outputs | sessions | steps/s | bytes up | bytes down |", "|---|---|---|---|---|"]
    for (what, sessions), rows in figures.items():
        up, down = (statistics.median(row[key] for row in rows) for key in ("bytes_up", "bytes_down"))
        lines.append(f"| {what} | {sessions} | {shown([row['steps_per_second'] for row in rows], 0)} | {up:,.0f} | {down:,.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement of the second table")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md as well")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.timezone.utc)
    report = environment.Report("whole_table", arguments.write)
    with tempfile.TemporaryDirectory() as folder:
        models, content = write(pathlib.Path(folder))
        report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}; `{' '.join(sys.argv)}`, medians of "
                   f"{arguments.rounds} rounds in turns (least to largest).\n")
        report.add(map_rows(models, arguments.rounds))
        with processes.rnnserve(environment.program("server/rnnserve"), []) as server:
            report.add("\n" + wire_rows(server, content, arguments.rounds, arguments.seconds))
    report.finish()


if __name__ == "__main__":
    main()
