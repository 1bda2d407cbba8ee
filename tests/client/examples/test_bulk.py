# SPDX-License-Identifier: Apache-2.0
"""The parts of the bulk example that need no Ray: what a worker calls, with threads instead of workers, and the line on a
terminal. tests/campaigns/test_bulk.py runs it with Ray."""

import concurrent.futures
import io
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

import rnnserve

sys.path.append(str(REPOSITORY / "tests" / "integration"))
sys.path.insert(0, str(REPOSITORY / "client" / "examples" / "bulk"))
from progress import Progress  # noqa: E402
from scorer import Scorer  # noqa: E402
from server_process import Server  # noqa: E402


@pytest.fixture
def replicas():
    """Two servers with one model."""
    rng = np.random.default_rng(1)
    operator = rnnserve.gru(rng.uniform(-1, 1, (1, 96, 3)).astype(np.float32), rng.uniform(-.5, .5, (1, 96, 32)).astype(np.float32))
    running = [Server() for _ in range(2)]
    for server in running:
        with rnnserve.Client(server.address) as client:
            client.load("scored", operator)
    yield running
    for server in running:
        server.stop()


def batch(rng, rows, first):
    sequences = np.empty(rows, object)
    for row in range(rows):
        sequences[row] = rng.uniform(-1, 1, (rng.integers(1, 60), 3)).tolist()
    return {"id": np.arange(first, first + rows), "x": sequences}


def scorer(replicas, **more):
    return Scorer(",".join(server.address for server in replicas), "scored", "x", deterministic=True, **more)


def test_every_row_while_a_replica_is_killed(replicas):
    rng = np.random.default_rng(2)
    batches = [batch(rng, 50, 50 * k) for k in range(40)]
    faultless = scorer(replicas[1:])
    expected = [faultless(one) for one in batches]
    faultless.close()

    scored = scorer(replicas, rows_per_call=8)
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        futures = [workers.submit(scored, one) for one in batches]
        for k, _ in enumerate(concurrent.futures.as_completed(futures)):
            if k == len(batches) // 4:  # two batches of several calls each are under way
                assert not futures[-1].done()
                replicas[0].process.kill()
        results = [future.result() for future in futures]
    scored.close()
    for result, other, one in zip(results, expected, batches):
        assert list(result) == ["id", "Y", "Y_h", "error"] and not any(result["error"])
        np.testing.assert_array_equal(result["id"], one["id"])
        for name in ("Y", "Y_h"):
            for row, value in enumerate(result[name]):
                np.testing.assert_array_equal(value, other[name][row])
        assert [len(value) for value in result["Y"]] == [len(value) for value in one["x"]]


def test_a_row_that_is_refused_costs_no_other(replicas):
    one = batch(np.random.default_rng(3), 20, 0)
    one["x"][3], one["x"][5], one["x"][7], one["x"][9] = None, [[1.0, 2.0]], [], [[1.0], [2.0, 3.0]]
    scored = scorer(replicas)
    result = scored(one)
    assert {row: error.split(":")[0] for row, error in enumerate(result["error"]) if error} == {
        3: "no sequence", 5: "a step of x has shape [2], and scored takes [3]", 9: "not a sequence of float32"}
    assert result["Y_h"][3] is result["Y_h"][5] is None and len(result["Y"][7]) == 0
    alone = scored({"x": one["x"][11:12]})
    np.testing.assert_array_equal(alone["Y_h"][0], result["Y_h"][11])
    scored.close()


@pytest.mark.parametrize("given, text", [
    ({"outputs": ["Y_c"]}, "scored has no output Y_c; it has Y, Y_h"), ({"model": "none"}, 'model "none" is not loaded')])
def test_what_is_wrong_is_said_at_once(replicas, given, text):
    replicas[0].process.kill()  # and the next server is asked
    with pytest.raises((ValueError, rnnserve.RnnServeError), match=text):
        Scorer(**{"servers": ",".join(s.address for s in replicas), "model": "scored", "column": "x", **given})


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_progress_and_a_pipe_does_not():
    for output in (Terminal(), io.StringIO()):
        seconds = iter([0.0, 0.1, 2.0, 3.0]).__next__
        progress = Progress(1000, 500, output, seconds)
        for rows in (10, 90, 400):
            progress.add(rows)
        progress.end()
        if output.isatty():
            lines = [line.replace("\x1b[K", "") for line in output.getvalue().split("\r")]
            assert lines == ["", "600 of 1,000 rows, 50 rows/s, 8 s left", "1,000 of 1,000 rows, 167 rows/s, 0 s left", ""]
        else:
            assert output.getvalue() == ""
