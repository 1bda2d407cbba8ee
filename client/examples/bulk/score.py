# SPDX-License-Identifier: Apache-2.0
"""Scores a corpus of Parquet files with a model of rnnserve, through all replicas, by Ray Data.

    python score.py --servers gpu-1:50051,gpu-2:50051 --model tagger --column tokens --results scored/ corpus/

For each row group of the input one file in --results: the input's columns without the sequences, the model's outputs, and
`error`. The same command goes on where an earlier run was cut off. On a terminal it shows how far it is.

exit status: 0 all rows scored; 1 some rows were refused, `error` says why; 2 something is missing, or a call failed
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from parts import PartScorer, errors_of, parts_of
from progress import Progress
from scorer import Scorer

import ray
from rnnserve import RnnServeError


def arguments_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="score.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", help="Parquet files, or folders of them")
    parser.add_argument("--servers", required=True, help="HOST:PORT, several by comma, or a name with several addresses")
    parser.add_argument("--model", required=True, help="its name; all servers have it")
    parser.add_argument("--column", required=True, help="the column of sequences: lists of numbers, or of lists")
    parser.add_argument("--outputs", default="", help="names by comma (default: all of the model)")
    parser.add_argument("--results", required=True, type=pathlib.Path, help="folder that all workers reach")
    parser.add_argument("--workers", type=int, default=2, help="processes of Ray that send (default: %(default)s)")
    parser.add_argument("--rows_per_call", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--calls", type=int, default=8, help="under way of each worker (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=300,
                        help="seconds without a server that takes a call (default: %(default)s)")
    parser.add_argument("--deterministic", action="store_true", help="the same bits in every run")
    parser.add_argument("--ray", default="local", help="address of a Ray cluster, or local (default: %(default)s)")
    return parser.parse_args(words)


@contextlib.contextmanager
def rays_words_aside() -> Iterator[TextIO]:
    """stdout and stderr for this program alone. Ray prints, and its libraries write to descriptor 2, past every setting; its
    logs below /tmp/ray have the same."""
    with os.fdopen(os.dup(2), "w") as ours, open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        os.dup2(nothing.fileno(), 2)
        try:
            yield ours
        finally:
            os.dup2(ours.fileno(), 2)


def run(parts: list[dict[str, Any]], workers: int, ray_address: str, scorer: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Rows and errors of each part, when its file is there. Ray's workers get the modules beside this file."""
    ray.init(address=ray_address, include_dashboard=False if ray_address == "local" else None, log_to_driver=False,
             runtime_env={"working_dir": str(pathlib.Path(__file__).resolve().parent)})
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield from ray.data.from_items(parts, override_num_blocks=len(parts)).map_batches(
        PartScorer, batch_size=1, compute=ray.data.ActorPoolStrategy(size=max(1, min(workers, len(parts)))),
        fn_constructor_kwargs=scorer).iter_rows()


def score(arguments: argparse.Namespace) -> dict[str, int]:
    outputs = [name for name in arguments.outputs.split(",") if name]
    scorer = {"servers": arguments.servers, "model": arguments.model, "column": arguments.column, "outputs": outputs,
              "rows_per_call": arguments.rows_per_call, "calls": arguments.calls, "patience": arguments.patience,
              "deterministic": arguments.deterministic}
    Scorer(**scorer).close()  # what is wrong with these is said before Ray starts
    runs_as = json.dumps({"model": arguments.model, "column": arguments.column, "outputs": outputs})
    parts = parts_of(arguments.corpus, arguments.column)
    before = [errors_of(arguments.results, part, runs_as) for part in parts]
    waiting = [part for part, errors in zip(parts, before) if errors is None]
    total, left = (sum(part["rows"] for part in some) for some in (parts, waiting))
    told = {"rows": total, "before": total - left, "scored": 0, "errors": sum(errors or 0 for errors in before)}
    if not waiting:
        return told
    scorer |= {"results": str(arguments.results.resolve()), "runs_as": runs_as}
    with rays_words_aside() as stderr:
        progress = Progress(total, total - left, stderr)
        try:
            for row in run(waiting, arguments.workers, arguments.ray, scorer):
                told["scored"] += row["rows"]
                told["errors"] += row["errors"]
                progress.add(row["rows"])
        finally:
            progress.end()
            ray.shutdown()
    return told


def main() -> int:
    arguments = arguments_of(sys.argv[1:])
    try:
        told = score(arguments)
    except (OSError, ValueError, RnnServeError, ray.exceptions.RayError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]  # Ray's last line is the worker's own error
        print(f"score.py: {lines[-1]}", file=sys.stderr)
        return 2
    print(json.dumps(told))
    return 1 if told["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
