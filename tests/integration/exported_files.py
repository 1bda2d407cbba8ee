# SPDX-License-Identifier: Apache-2.0
"""A file as an exporter writes it, in the server and in onnxruntime: by the file's own names and shapes, whole, with lengths
and in a session cut at random."""

from __future__ import annotations

import grpc
import numpy as np
import onnx
import onnxruntime
from onnx import helper, load_model

import wire
from server_process import Server


def _save(root, models):
    for name, model in models.items():
        path = root / name / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        onnx.save(model, path)


def served(root, models):
    """For a fixture: a server that has loaded all of {name: model}, and their folder."""
    _save(root, models)
    server = Server(f"--models={root}", "--drain_timeout=100ms")  # sessions are left open
    failures = server.models.List(wire.models_pb2.ListModelsRequest()).failures
    assert not failures, [f"{failure.path}: {failure.reason}" for failure in failures]
    yield server, root
    assert server.alive(), server.log()
    assert server.stop() == 0


def refusals(root, models):
    """Why a server does not load {name: model}: {name: reason}."""
    _save(root, models)
    server = Server(f"--models={root}")
    failures = {f.path.split("/")[0]: f.reason for f in server.models.List(wire.models_pb2.ListModelsRequest()).failures}
    assert server.stop() == 0
    return failures


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # else it rounds X to int8
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(path, axes_of, rng):
    """For the sizes of the file where it fixes them, else others. `axes_of`: which of the first axes of each input is "t" and
    which "n"."""
    sizes = {"t": int(rng.integers(2, 12)), "n": int(rng.integers(1, 5))}
    made_feeds = {}
    for k, value in enumerate(load_model(path, load_external_data=False).graph.input):
        axes = axes_of[k] if k < len(axes_of) else [None, "n"]
        shape = []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            symbol = axes[axis] if axis < len(axes) else None
            shape.append(sizes[symbol] if symbol and not dim.dim_value else dim.dim_value)
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind == "i" and len(shape) == 1:  # lengths, of which one is of all steps
            steps = next(iter(made_feeds.values())).shape[axes_of[0].index("t")]
            made = rng.integers(1, steps + 1, shape)
            made[rng.integers(0, len(made))] = steps
        else:
            made = rng.integers(0, 50, shape) if dtype.kind == "i" else rng.uniform(-1, 1, shape)
        made_feeds[value.name] = made.astype(dtype)
    return made_feeds


def infer(server, name, feeds):
    call = wire.recurrent_pb2.InferRequest()
    call.model.name = name
    call.inputs.extend(wire.tensor(key, value) for key, value in feeds.items())
    return wire.results(server.recurrent.Infer(call))


def excess(got, expected):
    assert {name: value.shape for name, value in got.items()} == {name: value.shape for name, value in expected.items()}
    with np.errstate(invalid="ignore"):  # infinite less infinite
        return max((float(np.max(np.where(got[name] == value, 0, np.abs(got[name].astype(float) - value) / np.maximum(1, np.abs(value))),
                                 initial=0)) for name, value in expected.items()), default=0.0)


def streamed(server, info, feeds, rng, records=()):
    """The outputs of a session, its steps cut at random, or None where a file has no session: what each step gives, joined, and the
    last of the others. `records`: inputs without steps that each chunk brings."""
    axes = {i.name: list(i.shape).index("T") for i in info.inputs if "T" in i.shape and i.name in feeds}
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    first = next(iter(axes))
    rows = feeds[first].shape[next(list(i.shape).index("N") for i in info.inputs if i.name == first)]
    request = wire.sessions_pb2.OpenRequest(rows=rows)
    request.model.name = info.name
    types = {state.name: helper.tensor_dtype_to_np_dtype(state.data_type) for state in info.state}
    states = {name: value.astype(types[name]) for name, value in feeds.items() if name not in axes and name not in records}
    if states:
        request.state.tensors.extend(wire.tensor(name, value) for name, value in states.items())
    try:
        key = sessions.Open(request).session
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error.details()
        return None
    steps = feeds[first].shape[axes[first]]
    cuts = [0, *sorted(rng.integers(1, steps, 2).tolist()), steps] if steps > 1 else [0, steps]
    pieces = []
    for number, (start, end) in enumerate(zip(cuts, cuts[1:]), 1):
        operation = wire.sessions_pb2.Operation(session=key, number=number)
        for name, axis in axes.items():
            operation.chunk.inputs.append(wire.tensor(name, np.take(feeds[name], range(start, end), axis)))
        operation.chunk.inputs.extend(wire.tensor(name, feeds[name]) for name in records)
        reply = sessions.Apply(wire.sessions_pb2.ApplyRequest(operation=operation)).reply
        assert not reply.status.code, reply.status.message
        if end > start:
            pieces.append(wire.results(reply))
    grown = {o.name: list(o.shape).index("T") for o in info.outputs if "T" in o.shape}
    return {name: np.concatenate([piece[name] for piece in pieces], grown[name]) if name in grown else pieces[-1][name]
            for name in pieces[0]}


def ragged(server, session, info, feeds, rng):
    """The largest difference of each row, with a length of its own, from onnxruntime's run of that row alone; None where the
    file fixes its sizes."""
    axes = {i.name: (list(i.shape).index("T"), list(i.shape).index("N")) for i in info.inputs
            if "T" in i.shape and i.name in feeds}
    if any(not isinstance(value.shape[axis], (str, type(None))) for value in session.get_inputs() if value.name in axes
           for axis in axes[value.name]):
        return None
    first = next(iter(axes))
    steps, rows = (feeds[first].shape[axis] for axis in axes[first])
    lengths = rng.integers(1, steps + 1, rows).astype(np.int32)
    got = infer(server, info.name, {**feeds, "sequence_lens": lengths})
    shapes = {o.name: list(o.shape) for o in info.outputs}
    worst = 0.0
    for row, length in enumerate(lengths):
        alone = {}
        for i in info.inputs:
            if i.name in feeds:
                alone[i.name] = np.take(feeds[i.name], [row], list(i.shape).index("N")) if "N" in i.shape else feeds[i.name]
                if i.name in axes:
                    alone[i.name] = np.take(alone[i.name], range(length), axes[i.name][0])
        for name, value in zip([o.name for o in session.get_outputs()], session.run(None, alone)):
            own = np.take(got[name], [row], shapes[name].index("N"))
            if "T" in shapes[name]:
                own = np.take(own, range(length), shapes[name].index("T"))
            worst = max(worst, excess({name: own}, {name: value}))
    return worst


def cut(info, outputs, lengths):
    """Makes what lies behind the end of each row zero."""
    for output in info.outputs:
        axes = list(output.shape)
        if "T" in axes:
            turned = np.moveaxis(outputs[output.name], (axes.index("N"), axes.index("T")), (0, 1))
            for row, length in enumerate(lengths):
                turned[row, length:] = 0


def differences(server, name, path, axes_of, rng):
    """The largest one of each way that the file allows: {"whole": 6e-8, "streamed": ...}. Raises what onnxruntime raises."""
    request = wire.models_pb2.GetModelRequest()
    request.model.name = name
    info = server.models.Get(request).model
    ours = session(path)
    assert [o.name for o in info.outputs] == [o.name for o in ours.get_outputs()]
    given = feeds(path, axes_of, rng)
    reply = infer(server, name, given)
    expected = dict(zip([o.name for o in ours.get_outputs()], ours.run(None, given)))
    lengths = next((value for value in given.values() if value.ndim == 1), None)
    if lengths is not None:  # behind a row's end the file gives what its operators make of zeros, the server zeros
        cut(info, expected, lengths)
        return {"with its lengths": excess(reply, expected)}
    found = {"whole": excess(reply, expected)}
    pieces = streamed(server, info, given, rng)
    if pieces is not None:  # without what needs the end of the sequence
        found["streamed"] = excess(pieces, {key: expected[key] for key in pieces})
    rows = ragged(server, ours, info, given, rng)
    if rows is not None:
        found["ragged"] = rows
    return found
