#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the machine's limits allow in the mean: for each cell of the engine table in docs/benchmarks.md the best peer's
time over the least time that multiply-adds and reads of weights take. Prints a Markdown table.

    tests/bench/engine_limits.py --flops 273,569 --reads 0.5:262/541,1:180/360,2:128/263,16:128/263,64:63/119

The rates are `machine_limits`' for one thread and two, in GFLOP/s and GB/s, reads by MiB a core. `--exchange 0.2` adds so
many microseconds to each step of two threads, and `--cells` prints the limit of every cell. `--json FILE` reads what
`engine_table.py --json FILE` wrote on another machine instead of the page.
"""

import argparse
import bisect
import json
import math
import pathlib
import re
import statistics

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Limits:
    def __init__(self, flops, reads, exchange):
        self.exchange = exchange * 1e-6
        self.flops = [float(one) * 1e9 for one in flops.split(",")]
        points = [re.fullmatch(r"(.+):(.+)/(.+)", one).groups() for one in reads.split(",")]
        self.sizes = [float(size) * 2**20 for size, *_ in points]
        self.rates = [[float(rates[thread]) * 1e9 for _, *rates in points] for thread in (0, 1)]

    def read_seconds(self, size, threads):
        """Of `size` bytes shared by the threads; between two points by the logarithm of the bytes."""
        own, rates = size / threads, self.rates[threads - 1]
        above = bisect.bisect_left(self.sizes, own)
        if above in (0, len(self.sizes)):
            return size / rates[min(above, len(rates) - 1)]
        share = math.log(own / self.sizes[above - 1]) / math.log(self.sizes[above] / self.sizes[above - 1])
        return size / (rates[above - 1] + (rates[above] - rates[above - 1]) * share)

    def seconds(self, kind, steps, rows, units, threads):
        weights = GATES[kind] * units * units * 4  # bytes of W, and of R
        product = 2 * rows * GATES[kind] * units * units / self.flops[threads - 1]  # of one step by one of them
        told = steps * self.exchange if threads == 2 else 0
        if steps == 1:
            return told + max(self.read_seconds(2 * weights, threads), 2 * product)
        inputs = max(self.read_seconds(weights, threads), steps * product)
        return told + inputs + steps * max(self.read_seconds(weights, threads), product)


def page_tables():
    """Of each table of the page: kind, threads, and shape, ours and best peer in us of its cells."""
    text = PAGE.read_text()
    table = text[text.index("<!-- engine_table: begin"):text.index("<!-- engine_table: end")]
    for found in re.finditer(r"\*\*(LSTM|GRU|RNN)[^\n]*?(\d) threads?\*\*.*?\n\n(.*?)\n\n", table, re.S):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[3].splitlines()[2:]]
        yield found[1], int(found[2]), [(row[0], float(row[1]), min(float(cell) for cell in row[3:6])) for row in rows]


def json_tables(path):
    for part in json.loads(pathlib.Path(path).read_text())["parts"]:
        cells = [(shape, cell["ours"] * 1e6, cell["peer"] * 1e6) for shape, cell in part["cells"].items()]
        yield part["kind"], part["threads"], cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flops", required=True)
    parser.add_argument("--reads", required=True)
    parser.add_argument("--exchange", type=float, default=0)
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    limits = Limits(arguments.flops, arguments.reads, arguments.exchange)
    print("| operator | threads | best peer / ours | best peer / limit | furthest from the limit |\n|---|---|---|---|---|")
    for kind, threads, cells in json_tables(arguments.json) if arguments.json else page_tables():
        shapes, ours, peers = zip(*cells)
        least = [limits.seconds(kind, *map(int, shape.split(",")), threads) * 1e6 for shape in shapes]
        means = [statistics.geometric_mean(peer / time for peer, time in zip(peers, times)) for times in (ours, least)]
        furthest, shape = max((own / limit, shape) for own, limit, shape in zip(ours, least, shapes))
        if arguments.cells:
            print("".join(f"{shape}: {own:.4g} of {limit:.3g}; " for shape, own, limit in zip(shapes, ours, least)))
        print(f"| {kind} | {threads} | {means[0]:.2f} | {means[1]:.2f} | {shape}: {furthest:.2f} |")


if __name__ == "__main__":
    main()
