# SPDX-License-Identifier: Apache-2.0
"""A file that only moves axes around its layers, by its own names and shapes: unmodified tritonclient, the Python client and
rnnctl, against onnxruntime on the same file. 168 such files over the native protocol: test_stacks.py."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as triton

import repository_files
import rnnserve
import stack_graphs
from server_process import Server
from test_inspect import RNNCTL

TOLERANCE = {"rtol": 0, "atol": 1e-6}
# As torch.onnx.export writes nn.LSTM(3, 5, num_layers=2, batch_first=True) with given states.
FILE = stack_graphs.Stack(("LSTM", "LSTM"), batch_first=True, states="sliced", finals="joined")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("named")
    repository_files.write(root / "lstm" / "1", stack_graphs.model(FILE))
    running = Server(f"--models={root}")
    yield running, root
    assert running.alive(), running.log()
    assert running.stop() == 0


@pytest.fixture(scope="module")
def expected(served):
    """What goes in, and what onnxruntime makes of it."""
    rng = np.random.default_rng(6)
    feeds = {"input": rng.uniform(-1, 1, (2, 7, 3)), "h0": rng.uniform(-1, 1, (2, 2, 5)),
             "c0": rng.uniform(-1, 1, (2, 2, 5))}
    feeds = {name: value.astype(np.float32) for name, value in feeds.items()}
    session = onnxruntime.InferenceSession(served[1] / "lstm/1/model.onnx")
    return feeds, dict(zip(("output", "hn", "cn"), session.run(["output", "hn", "cn"], feeds)))


def _same(got, expected):
    assert list(got) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, **TOLERANCE, err_msg=name)


# --- tritonclient

def _inputs(feeds):
    made = []
    for name, value in feeds.items():
        made.append(triton.InferInput(name, list(value.shape), "FP32"))
        made[-1].set_data_from_numpy(np.ascontiguousarray(value))
    return made


def _outputs(result):
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def test_tritonclient(served, expected):
    feeds, wanted = expected
    with triton.InferenceServerClient(served[0].address) as client:
        metadata = client.get_model_metadata("lstm")
        assert {t.name: list(t.shape) for t in metadata.inputs} == {"input": [-1, -1, 3], "h0": [2, -1, 5],
                                                                    "c0": [2, -1, 5]}
        assert {t.name: list(t.shape) for t in metadata.outputs} == {"output": [-1, -1, 5], "hn": [2, -1, 5],
                                                                     "cn": [2, -1, 5]}
        config = client.get_model_config("lstm").config
        assert [t.name for t in config.input] == ["input", "h0", "c0"] and config.max_batch_size == 0
        _same(_outputs(client.infer("lstm", _inputs(feeds))), wanted)
        some = client.infer("lstm", _inputs(feeds), outputs=[triton.InferRequestedOutput("hn")])
        _same(_outputs(some), {"hn": wanted["hn"]})
        by_operators = dict(zip(("X", "initial_h", "initial_c"), feeds.values()))
        reply = _outputs(client.infer("lstm", _inputs(by_operators)))
        assert list(reply) == ["Y", "Y_h", "Y_c"]
        np.testing.assert_array_equal(reply["Y"][:, :, 0], _outputs(client.infer("lstm", _inputs(feeds)))["output"])


def test_a_sequence_of_tritonclient(served, expected):
    feeds, _ = expected
    session = onnxruntime.InferenceSession(served[1] / "lstm/1/model.onnx")
    zeros = np.zeros((2, 2, 5), np.float32)
    whole = session.run(["output"], {"input": feeds["input"], "h0": zeros, "c0": zeros})[0]
    with triton.InferenceServerClient(served[0].address) as client:
        for name in ("input", "X"):
            steps = [client.infer("lstm", _inputs({name: feeds["input"][:, k:k + 1]}), sequence_id=9, sequence_start=k == 0,
                                  sequence_end=k == 6).as_numpy("output" if name == "input" else "Y") for k in range(7)]
            np.testing.assert_allclose(np.concatenate(steps, axis=1).reshape(2, 7, 5), whole, **TOLERANCE)


# --- the Python client

def test_python(served, expected):
    feeds, wanted = expected
    with rnnserve.Client(served[0].address) as client:
        info = client.get("lstm")
        assert [(t.name, tuple(t.shape)) for t in info.inputs] == [
            ("input", ("N", "T", "3")), ("h0", ("2", "N", "5")), ("c0", ("2", "N", "5")), ("sequence_lens", ("N",))]
        _same(client.infer("lstm", feeds).outputs, wanted)
        _same(client.infer("lstm", feeds, outputs="output").outputs, {"output": wanted["output"]})
        state = {name: feeds[name] for name in ("h0", "c0")}
        with client.session("lstm", state=state) as session:
            parts = [session.feed(piece) for piece in np.split(feeds["input"], [2, 3], axis=1)]  # no name: the input
            np.testing.assert_allclose(np.concatenate([part["output"] for part in parts], 1), wanted["output"], **TOLERANCE)
            _same({name: parts[-1][name] for name in ("hn", "cn")}, {name: wanted[name] for name in ("hn", "cn")})
            told = session.state()
            assert list(told) == ["h0", "c0"]
            np.testing.assert_allclose(told["h0"], wanted["hn"], **TOLERANCE)
            session.set_state(state)
            again = session.feed({"input": feeds["input"]})
            np.testing.assert_array_equal(again["output"][:, :2], parts[0]["output"])
            session.reset({"h0": told["h0"], "initial_c": told["c0"]})  # by either name
            np.testing.assert_array_equal(session.state()["c0"], told["c0"])
            with pytest.raises(rnnserve.RnnServeError, match="h0 is missing"):
                session.set_state({"c0": told["c0"]})
            with pytest.raises(rnnserve.RnnServeError, match="expected .2, B, 5."):
                session.set_state({"h0": told["h0"][:1], "c0": told["c0"]})


def test_a_session_has_the_rows_of_its_state(served, expected):
    """The first axis of h0 is of layers."""
    feeds, _ = expected
    with rnnserve.Client(served[0].address) as client:
        with client.session("lstm", rows=2) as session, client.session("lstm", rows=2) as other:
            for one in (session, other):
                one.feed(feeds["input"])
            session.checkpoint("here")
            session.select_rows([1, 0])
            session.feed(np.zeros((2, 1, 3), np.float32))
            session.rewind("here")
            np.testing.assert_array_equal(session.feed(feeds["input"])["output"], other.feed(feeds["input"])["output"])
            with client.session("lstm", state=session.state()) as copy:
                np.testing.assert_array_equal(copy.feed(feeds["input"])["output"], other.feed(feeds["input"])["output"])
            again = session.opening.anew(session.state())  # as a session is opened on the next server
            assert not again.request(session.state(), "id").HasField("rows")


def test_a_file_of_one_bare_node_has_the_operators_names(served, tmp_path):
    """Whatever its graph calls them."""
    with_squeeze = stack_graphs.model(stack_graphs.Stack(("GRU",), hidden_sizes=(5,)))
    alone = stack_graphs.model(stack_graphs.Stack(("GRU",), hidden_sizes=(5,)))
    (gru,) = [node for node in alone.graph.node if node.op_type == "GRU"]
    del alone.graph.node[:]
    alone.graph.node.append(gru)
    alone.graph.output[0].name = gru.output[0]
    with rnnserve.Client(served[0].address) as client:
        for name, file, names in (("squeezed", with_squeeze, ["output"]), ("alone", alone, ["Y", "Y_h"])):
            (tmp_path / f"{name}.onnx").write_bytes(file.SerializeToString())
            info = client.load(name, tmp_path / f"{name}.onnx")
            assert [t.name for t in info.outputs] == names
            assert [t.name for t in info.inputs] == (["input", "sequence_lens"] if name == "squeezed" else
                                                     ["X", "sequence_lens", "initial_h"])


# --- rnnctl

def _rnnctl(served, *words):
    done = subprocess.run([RNNCTL, *map(str, words), f"--server={served[0].address}"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rnnctl(served, expected, tmp_path):
    feeds, wanted = expected
    for name, value in feeds.items():
        np.save(tmp_path / f"{name}.npy", value)
    tensors = [f"--tensor={name}={tmp_path}/{name}.npy" for name in feeds]
    _rnnctl(served, "infer", "--model=lstm", *tensors, f"--out={tmp_path}/whole")
    _same({name: np.load(tmp_path / f"whole/{name}.npy") for name in wanted}, wanted)
    np.save(tmp_path / "first.npy", feeds["input"][:, :4])
    np.save(tmp_path / "rest.npy", feeds["input"][:, 4:])
    _rnnctl(served, "stream", tmp_path / "first.npy", "--model=lstm", "--chunk=3", *tensors[1:], f"--out={tmp_path}/1")
    _rnnctl(served, "stream", tmp_path / "rest.npy", "--model=lstm", f"--tensor=h0={tmp_path}/1/h0.npy",
            f"--tensor=c0={tmp_path}/1/c0.npy", f"--out={tmp_path}/2")
    parts = [np.load(tmp_path / f"{part}/output.npy") for part in (1, 2)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), wanted["output"], **TOLERANCE)
    np.testing.assert_allclose(np.load(tmp_path / "2/c0.npy"), wanted["cn"], **TOLERANCE)


def test_rnnctl_tells_the_files_names(served):
    described = _rnnctl(served, "models", "show", "lstm")
    for line in ("[N, T, 3]", "[2, N, 5]", "[N, T, 5]", "h0", "cn"):
        assert line in described
    path = served[1] / "lstm/1/model.onnx"
    done = subprocess.run([RNNCTL, "inspect", path, "--json"], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert [(t["name"], t["shape"]) for t in told["inputs"]][:2] == [("input", ["N", "T", "3"]), ("h0", ["2", "N", "5"])]
    assert [t["name"] for t in told["outputs"]] == ["output", "hn", "cn"]
    done = subprocess.run([RNNCTL, "inspect", path], capture_output=True, text=True, check=True)
    assert "[N, T, 3]" in done.stdout and "hn" in done.stdout
