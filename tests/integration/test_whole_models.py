# SPDX-License-Identifier: Apache-2.0
"""Whole models: what is before, between and after the layers is computed by the server as onnxruntime does on the same
file; whole, ragged, and streamed in random cuts. In float64, where onnxruntime has no layers: as the double reference does."""

from __future__ import annotations

import os

import grpc
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import repository_files
import session_calls
import whole_graphs
import whole_reference
import wire
from server_process import Server

COUNT = int(os.environ.get("RNNSERVE_GRAPHS", "300"))
# Of max(1, |expected|). docs/operators.md, "Whole models", has those of float64 and float16.
TOLERANCES = {"float32": 2e-4, "float64": 1e-12, "float16": 4 * 2.0**-11}
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16}


class Served:
    """A server with COUNT models of a type, and what judges them."""

    def __init__(self, data_type, root):
        self.data_type, self.tolerance, self.worst = data_type, TOLERANCES[data_type], 0.0
        self.models = [whole_graphs.draw(seed, TYPES[data_type]) for seed in range(COUNT)]
        for k, whole in enumerate(self.models):
            repository_files.write(root / f"whole-{k}" / "1", whole.content)
        self.server = Server(f"--models={root}", "--drain_timeout=100ms")  # sessions are left open
        self._judges = {}

    def expected(self, k, feeds):
        """The outputs of model k by name."""
        whole = self.models[k]
        if k not in self._judges:
            self._judges[k] = (whole_reference.Reference(whole.content, TYPES[self.data_type])
                               if self.data_type == "float64" else _session(whole.content.SerializeToString()))
        if self.data_type == "float64":
            return self._judges[k].run(feeds)
        return dict(zip(whole.outputs, self._judges[k].run(None, feeds)))

    def compare(self, got, expected, where):
        assert got.shape == expected.shape, where
        assert got.dtype == expected.dtype, where
        if got.dtype.kind == "i":
            return int(np.count_nonzero(got != expected))
        wide = expected.astype(np.float64)
        excess = float(np.max(np.abs(got - wide) / np.maximum(1, np.abs(wide)), initial=0))
        assert excess <= self.tolerance, (where, excess)
        self.worst = max(self.worst, excess)
        return 0


@pytest.fixture(scope="module", params=TYPES)
def served(request, tmp_path_factory):
    made = Served(request.param, tmp_path_factory.mktemp("whole"))
    yield made
    print(f"{made.data_type}: largest difference {made.worst:.1e} of max(1, |expected|)")
    assert made.server.alive(), made.server.log()
    assert made.server.stop() == 0


def _session(content):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    # onnxruntime 1.31.1 dies of what its further levels make of the float16 model of seed 215.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _infer(server, name, tensors, outputs=()):
    request = wire.recurrent_pb2.InferRequest(outputs=outputs)
    request.model.name = name
    request.inputs.extend(wire.tensor(key, value) for key, value in tensors.items())
    return wire.results(server.recurrent.Infer(request))


def test_every_file_is_served(served):
    reply = served.server.models.List(wire.models_pb2.ListModelsRequest())
    assert not [f"{f.path}: {f.reason}" for f in reply.failures]
    assert len(reply.models) == COUNT


def test_numbers_of_onnxruntime(served):
    server = served.server
    rng = np.random.default_rng(3)
    places = misplaced = 0
    for k, whole in enumerate(served.models):
        for steps, rows in ((int(rng.integers(1, 9)), int(rng.integers(1, 5))), (1, 1)):
            tensors = whole_graphs.feeds(whole, rng, steps, rows)
            expected = served.expected(k, tensors)
            reply = _infer(server, f"whole-{k}", tensors)
            assert list(reply) == list(expected), k
            for name, value in expected.items():
                misplaced += served.compare(reply[name], value, (k, name, steps, rows))
                places += value.size if value.dtype.kind == "i" else 0
    # Where two numbers are equal but for rounding either may be the larger one: of float16 more often.
    assert misplaced <= places / (100 if served.data_type == "float16" else 200), (misplaced, places)


def _axes(whole, name):
    """Which axis of an input is steps and which rows."""
    shape = next(i[2] for i in whole.inputs if i[0] == name)
    return (shape.index("t") if "t" in shape else None), shape.index("n")


def _cut(whole, tensors, first, end):
    return {name: np.take(value, range(first, end), _axes(whole, name)[0]) for name, value in tensors.items()}


def _shapes(server, name):
    request = wire.models_pb2.GetModelRequest()
    request.model.name = name
    info = server.models.Get(request).model
    return {i.name: list(i.shape) for i in info.inputs}, {o.name: list(o.shape) for o in info.outputs}


def test_names_types_and_shapes_are_the_files(served):
    server = served.server
    for k, whole in enumerate(served.models):
        inputs, outputs = _shapes(server, f"whole-{k}")
        declared = {name: [str(dim).upper() for dim in shape] for name, _, shape in whole.inputs}
        assert {name: inputs[name] for name in declared} == declared, k
        assert set(inputs) - set(declared) <= {"sequence_lens"}
        assert list(outputs) == whole.outputs


def test_ragged_rows_are_what_each_row_is_alone(served):
    server = served.server
    rng = np.random.default_rng(5)
    for k, whole in enumerate(served.models[:150]):
        if whole.states:
            continue
        _, shapes = _shapes(server, f"whole-{k}")
        tensors = whole_graphs.feeds(whole, rng, 6, 3)
        lengths = np.asarray([6, 2, 4], np.int32)
        reply = _infer(server, f"whole-{k}", {**tensors, "sequence_lens": lengths})
        for row, length in enumerate(lengths):
            alone = {name: np.take(value, [row], _axes(whole, name)[1]) for name, value in
                     _cut(whole, tensors, 0, length).items()}
            for name, value in served.expected(k, alone).items():
                got = np.take(reply[name], [row], shapes[name].index("N"))
                if "T" in shapes[name]:
                    axis = shapes[name].index("T")
                    assert not np.take(got, range(length, 6), axis).any(), (k, name)
                    got = np.take(got, range(length), axis)
                if value.dtype.kind == "f":
                    served.compare(got, value, (k, name, row))


def _open(server, name, rows, outputs=()):
    request = wire.sessions_pb2.OpenRequest(rows=rows, outputs=outputs)
    request.model.name = name
    return wire.sessions_grpc.SessionsStub(server.channel).Open(request)


def _apply(server, session, number, tensors):
    operation = session_calls.operation(session, number, chunk=wire.sessions_pb2.Chunk(
        inputs=[wire.tensor(key, value) for key, value in tensors.items()]))
    reply = wire.sessions_grpc.SessionsStub(server.channel).Apply(wire.sessions_pb2.ApplyRequest(operation=operation)).reply
    assert reply.status.code == 0, reply.status
    return session_calls.tensors(reply.outputs)


def test_streamed_in_random_cuts_it_is_one_sequence(served):
    server = served.server
    rng = np.random.default_rng(7)
    streamed = 0
    for k, whole in enumerate(served.models):
        if not whole.forward or whole.states:
            continue
        streamed += 1
        _, shapes = _shapes(server, f"whole-{k}")
        rows, steps = int(rng.integers(1, 4)), 7
        tensors = whole_graphs.feeds(whole, rng, steps, rows)
        opened = _open(server, f"whole-{k}", rows)
        cuts = sorted({0, steps, *(int(c) for c in rng.integers(0, steps, 3))})
        replies = [_apply(server, opened.session, number, _cut(whole, tensors, first, end))
                   for number, (first, end) in enumerate(zip(cuts, cuts[1:]), start=1)]
        for name, value in served.expected(k, tensors).items():
            if name not in replies[0]:
                assert whole.has_mean, (k, name)
                continue
            parts = [reply[name] for reply in replies]
            got = np.concatenate(parts, shapes[name].index("T")) if "T" in shapes[name] else parts[-1]
            if value.dtype.kind == "f":
                served.compare(got, value, (k, name, cuts))
    assert streamed > COUNT // 4
    print(f"{streamed} models streamed")


def test_deterministic_answers_do_not_depend_on_company(served):
    server = served.server
    rng = np.random.default_rng(9)
    for k, whole in enumerate(served.models[:20]):
        tensors = whole_graphs.feeds(whole, rng, 5, 4)
        request = wire.recurrent_pb2.InferRequest()
        request.options.deterministic = True
        request.model.name = f"whole-{k}"
        request.inputs.extend(wire.tensor(key, value) for key, value in tensors.items())
        together = wire.results(server.recurrent.Infer(request))
        alone = {name: np.take(value, [2], _axes(whole, name)[1]) for name, value in tensors.items()}
        del request.inputs[:]
        request.inputs.extend(wire.tensor(key, value) for key, value in alone.items())
        _, shapes = _shapes(server, f"whole-{k}")
        for name, value in wire.results(server.recurrent.Infer(request)).items():
            assert np.array_equal(np.take(together[name], [2], shapes[name].index("N")), value), (k, name)


def test_a_request_that_does_not_fit_is_refused_by_field(served):
    server = served.server
    k = next(k for k, whole in enumerate(served.models) if whole.tokens and not whole.states and len(whole.inputs) == 2)
    whole = served.models[k]
    name = next(iter(whole.tokens))
    tensors = whole_graphs.feeds(whole, np.random.default_rng(1), 3, 2)
    for changed, text in (({name: tensors[name] + 10**6}, f"{name} has "),
                          ({name: tensors[name].astype(np.float32)}, "is float32; the model's file has int"),
                          ({name: tensors[name][:1]}, "T and N are one for all inputs"),
                          ({name: tensors[name][..., None]}, "has shape"),
                          ({"X": np.zeros((3, 2, 1), np.float32)}, "there is no input")):
        with pytest.raises(grpc.RpcError) as refused:
            _infer(server, f"whole-{k}", {**tensors, **changed})
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert text in refused.value.details(), refused.value.details()
    with pytest.raises(grpc.RpcError) as refused:
        _infer(server, f"whole-{k}", {other: value for other, value in tensors.items() if other != name})
    assert f"input {name} is missing" in refused.value.details()


def test_a_session_refuses_what_needs_the_whole_sequence(served):
    server = served.server
    k = next(k for k, whole in enumerate(served.models) if whole.forward and whole.has_mean and not whole.states)
    refusals = 0
    for output in served.models[k].outputs:
        try:
            _open(server, f"whole-{k}", 1, [output])
        except grpc.RpcError as refused:
            assert "needs the whole sequence" in refused.details()
            refusals += 1
    assert refusals == 1
