# SPDX-License-Identifier: Apache-2.0
"""Steps, rows and features in any order: of a graph's inputs, as speech toolkits and "channels first" have them, and of its
outputs, in onnxruntime and in the server; whole, with lengths and in sessions."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton

import exported_files
import test_inspect
import whole_graphs

WIDTH, SIZES = 5, {"t": 7, "n": 3}
ORDERS = ["".join(order) for order in itertools.permutations("tnf")]


def _graph(axes, fixed="", seed=1):
    """A graph whose input has these axes, "c" being 2 more of the features."""
    g = whole_graphs.Graph(seed)
    sizes = {"f": WIDTH, "c": 2, "1": 1, **{axis: SIZES[axis] if axis in fixed else axis for axis in "tn"}}
    g.inputs.append(("x", g.data_type, [sizes[axis] for axis in axes]))
    return g


def _turned(g, name, axes, to):
    return g.node("Transpose", [name], perm=[axes.index(axis) for axis in to])


def _ended(g, value, width, axes):
    y, final = g.layer(whole_graphs.Value(value, width), whole_graphs.Value(value, width), {"forward": True})
    g.node("Transpose", [g.node("MatMul", [y.name, g.weight(y.width, 4)])], "y", perm=["tnf".index(axis) for axis in axes])
    g.outputs.append(("y", g.data_type))
    g.output(final, "last")
    return g.model()


def _moved(order, fixed):
    g = _graph(order, fixed)
    return _ended(g, _turned(g, "x", order, "tnf"), WIDTH, order)


def _bare(order):
    """Nothing but a layer between two Transposes: no map computes anything."""
    g = _graph(order)
    value = whole_graphs.Value(_turned(g, "x", order, "tnf"), WIDTH)
    y = g.layer(value, value, {"forward": True})[0]
    g.node("Transpose", [y.name], "y", perm=["tnf".index(axis) for axis in order])
    g.outputs.append(("y", g.data_type))
    return g.model()


def _normed(fixed):
    """[N, F, T] that is normed and multiplied before it is turned."""
    g = _graph("nft", fixed)
    value = g.node("BatchNormalization", ["x", *(g.weight(WIDTH) for _ in range(3)), g.store(np.ones(WIDTH, g.dtype))])
    value = g.node("Conv", [g.node("Add", [value, g.weight(WIDTH, 1)]), g.weight(4, WIDTH, 1)], kernel_shape=[1])
    return _ended(g, g.node("Transpose", [g.node("Slice", [value, g.ints(0), g.ints(3), g.ints(1)])], perm=[2, 0, 1]), 3, "nft")


def _channels(fixed, by_sizes):
    """[N, C, F, T], of which C and F become one axis."""
    g = _graph("ncft", fixed)
    if by_sizes:  # x.view(n, c * f, t), as torch writes it
        shape = g.node("Shape", ["x"])
        n, c, f, t = (g.node("Gather", [shape, g.ints(k)], axis=0) for k in range(4))
        shape = g.node("Concat", [n, g.node("Mul", [c, f]), t], axis=0)
    else:
        shape = g.ints(0, 2 * WIDTH, -1)
    return _ended(g, _turned(g, g.node("Reshape", ["x", shape]), "nft", "tnf"), 2 * WIDTH, "nft")


def _one_channel(fixed):
    """[N, 1, F, T], as a spectrogram comes."""
    g = _graph("n1ft", fixed)
    return _ended(g, _turned(g, g.node("Squeeze", ["x", g.ints(1)]), "nft", "tnf"), WIDTH, "tnf")


def _two_inputs(fixed):
    g = _graph("nft", fixed)
    g.inputs.append(("z", g.data_type, [*g.inputs[0][2][:1], 2, g.inputs[0][2][2]]))
    return _ended(g, _turned(g, g.node("Concat", ["x", "z"], axis=1), "nft", "tnf"), WIDTH + 2, "nft")


def _features_first(fixed):
    """[F, N, T], of which the first features are dropped."""
    g = _graph("fnt", fixed)
    value = g.node("Concat", [g.node("Slice", ["x", g.ints(1), g.ints(WIDTH), g.ints(0)]), "x"], axis=0)
    return _ended(g, _turned(g, value, "fnt", "tnf"), 2 * WIDTH - 1, "fnt")


CASES = {f"{order}-{fixed or 'open'}": (_moved(order, fixed), order) for order in ORDERS for fixed in ("", "t", "n", "tn")}
CASES |= {f"bare-{order}": (_bare(order), order) for order in ORDERS}
for fixed in ("", "t", "n", "tn"):
    CASES |= {f"normed-{fixed}": (_normed(fixed), "nft"), f"features-first-{fixed}": (_features_first(fixed), "fnt"),
              f"one-channel-{fixed}": (_one_channel(fixed), "n1ft"),
              f"two-inputs-{fixed}": (_two_inputs(fixed), "nft"), f"channels-{fixed}": (_channels(fixed, False), "ncft"),
              f"channels-by-sizes-{fixed}": (_channels(fixed, True), "ncft")}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from exported_files.served(tmp_path_factory.mktemp("axes"), {name: model for name, (model, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_axes_in_any_order(served, name):
    server, root = served
    axes = [axis if axis in "tn" else None for axis in CASES[name][1]]
    found = exported_files.differences(server, name, str(root / name / "1" / "model.onnx"), [axes, axes],
                                       np.random.default_rng(1))
    assert max(found.values()) <= 1e-5 and "streamed" in found, found


def test_rnnctl_shows_and_feeds_them(served, tmp_path):
    server, root = served
    path = root / "nft-open" / "1" / "model.onnx"
    assert f"[N, {WIDTH}, T]" in test_inspect.rnnctl("inspect", path).stdout
    x = np.random.default_rng(1).uniform(-1, 1, (2, WIDTH, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    done = test_inspect.rnnctl("stream", tmp_path / "x.npy", "--model=nft-open", "--chunk=2", f"--out={tmp_path}/out",
                               f"--server={server.address}")
    assert done.returncode == 0, done.stderr
    expected = exported_files.session(str(path)).run(["y"], {"x": x})[0]
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), expected, atol=1e-5)


def test_tritonclient_sees_and_sends_them(served):
    server, root = served
    x = np.random.default_rng(2).uniform(-1, 1, (2, WIDTH, 5)).astype(np.float32)
    expected = exported_files.session(str(root / "nft-open" / "1" / "model.onnx")).run(["y"], {"x": x})[0]
    with triton.InferenceServerClient(server.address) as client:
        assert list(client.get_model_metadata("nft-open").inputs[0].shape) == [-1, WIDTH, -1]

        def run(part, **sequence):
            given = triton.InferInput("x", list(part.shape), "FP32")
            given.set_data_from_numpy(np.ascontiguousarray(part))
            return client.infer("nft-open", [given], outputs=[triton.InferRequestedOutput("y")], **sequence).as_numpy("y")

        np.testing.assert_allclose(run(x), expected, atol=1e-5)
        steps = [run(x[..., k:k + 1], sequence_id=1, sequence_start=k == 0, sequence_end=k == 4) for k in range(5)]
        np.testing.assert_allclose(np.concatenate(steps, -1), expected, atol=1e-5)


def test_what_takes_two_runs_of_numbers_is_refused(tmp_path):
    g = _graph("cnft")
    value = _turned(g, "x", "cnft", "tncf")
    onnx.save(_ended(g, g.node("Reshape", [value, g.ints(0, 0, -1)]), 2 * WIDTH, "tnf"), tmp_path / "model.onnx")
    reason = test_inspect.inspect(tmp_path / "model.onnx")["reason"]
    assert 'graph input "x" [2, N, 5, T] has numbers of a step before its steps and others before its rows' in reason
