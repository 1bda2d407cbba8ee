# SPDX-License-Identifier: Apache-2.0
"""python -m rnnserve.selftest: see rnnserve.selftest. Exit status 0: all agree; 1: a difference; 2: a call failed."""

import argparse
import sys
from collections.abc import Mapping

import numpy as np

from rnnserve import Client, RnnServeError, formulas
from rnnserve.selftest.cases import all_cases
from rnnserve.selftest.published import Array

# The converters round parameters and biases to float32 once; the server computes in float32.
FORMULA_TOLERANCE, SERVER_TOLERANCE = 1e-6, 1e-5


def difference(expected: Mapping[str, Array], actual: Mapping[str, Array]) -> float:
    """The largest difference over all outputs; infinite where one is missing or has another shape."""
    worst = 0.0
    for name, value in expected.items():
        if name not in actual or actual[name].shape != value.shape:
            return np.inf
        worst = max(worst, float(np.max(np.abs(actual[name] - value))))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rnnserve.selftest", description="Compares the converters and the formulas, and with --address "
        "a server, with each framework's published equations.")
    parser.add_argument("--address", help="HOST:PORT of a server to compare as well")
    arguments = parser.parse_args()
    client = Client(arguments.address, timeout=30) if arguments.address else None
    cases = all_cases()
    failed, worst = 0, [0.0, 0.0]
    for case in cases:
        found = [difference(case.expected, formulas.run(case.op, case.inputs))]
        if client is not None:
            try:
                found.append(difference(case.expected, client.infer(case.op, case.inputs).outputs))
            except RnnServeError as error:
                print(f"{case.name}: {error}", file=sys.stderr)
                return 2
        good = all(value <= limit for value, limit in zip(found, (FORMULA_TOLERANCE, SERVER_TOLERANCE)))
        failed += not good
        worst[:len(found)] = [max(pair) for pair in zip(worst, found)]
        print(f"{'ok' if good else 'DIFFERS':8}{'  '.join(f'{value:.1e}' for value in found)}  {case.name}")
    server = f", through the server {worst[1]:.1e}" if client is not None else ""
    print(f"{len(cases)} cases, {failed} differ; largest difference {worst[0]:.1e} by the formulas{server}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
