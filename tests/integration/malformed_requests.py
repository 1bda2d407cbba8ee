# SPDX-License-Identifier: Apache-2.0
"""Requests that have to be refused, as a table: adding a case is adding a line.

A line is (what is wrong, base request, change, where), all else being right. `where` is the field path that the refusal
(INVALID_ARGUMENT) has to name, or a Refused with another code or a reason.
"""

from __future__ import annotations

import dataclasses
import functools

import grpc
import numpy as np

import wire
from malformed_changes import (
    CASES, H, I, N, T, again, attr, both, cut, drop, lengths, op, outputs, raw, sends, set_, shaped, tensor, value, zeros,
)

NAN, INF = float("nan"), float("inf")
BIG = {"2^31 - 1": 2**31 - 1, "2^31": 2**31, "2^32": 2**32, "2^62": 2**62, "2^63 - 1": 2**63 - 1}


@dataclasses.dataclass(frozen=True)
class Refused:
    code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT
    field: str | None = None
    reason: str | None = None


NOT_FOUND = functools.partial(Refused, grpc.StatusCode.NOT_FOUND)
LIMIT = functools.partial(Refused, reason="LIMIT_EXCEEDED")
NO_MESSAGE = Refused()  # no field path: the bytes never became a message

ALL = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
FLOATING = ("X", "R", "B", "initial_h", "initial_c", "P")  # next to W, which gives the type
RANKS = {name: CASES["LSTM"].tensors[name].ndim for name in ALL}


def for_each(names, what, change, where):
    return [(f"{what} {n}", "LSTM", change(n), where.format(n)) for n in names]


def at(name, **attributes):
    """A line about one attribute of LSTM-14."""
    (key, given), = attributes.items()
    return f"{name}", "LSTM", attr(**attributes), f"operator.attributes[{key}]"


REQUESTS = [
    # Data of a tensor.
    *for_each(ALL, "no data for", lambda n: tensor(n, raw=b""), "inputs[{}].raw"),
    *for_each(ALL, "a byte too few for", raw(lambda b: b[:-1]), "inputs[{}].raw"),
    *for_each(ALL, "an element too many for", raw(lambda b: b + b[:4]), "inputs[{}].raw"),
    ("raw and typed data", "LSTM", tensor("X", float_data=[0.0] * (T * N * I)), "inputs[X]"),
    ("raw and one typed value", "LSTM", tensor("X", float_data=[0.0]), "inputs[X]"),
    ("raw and a list of another type", "LSTM", tensor("sequence_lens", int64_data=[1, 1]), "inputs[sequence_lens]"),
    ("two typed lists", "LSTM", tensor("X", raw=b"", float_data=[0.0] * 18, double_data=[0.0] * 18), "inputs[X]"),
    ("too few typed values", "LSTM", tensor("X", raw=b"", float_data=[0.0] * 17), "inputs[X].float_data"),
    ("too many typed values", "LSTM", tensor("X", raw=b"", float_data=[0.0] * 19), "inputs[X].float_data"),
    ("doubles for a float tensor", "LSTM", tensor("X", raw=b"", double_data=[0.0] * 18), "inputs[X].double_data"),
    ("ints for a float tensor", "LSTM", tensor("W", raw=b"", int32_data=[0] * 48), "inputs[W].int32_data"),
    ("int64 for int32 lengths", "LSTM", tensor("sequence_lens", raw=b"", int64_data=[1, 1]),
     "inputs[sequence_lens].int64_data"),
    ("data for an empty tensor", "LSTM", tensor("X", shape=[0, N, I]), "inputs[X].raw"),
    # Shapes.
    *for_each(ALL, "an axis too few in", shaped(lambda s: s[1:]), "inputs[{}].shape"),
    *for_each(ALL, "an axis too many in", shaped(lambda s: [1, *s]), "inputs[{}].shape"),
    *for_each([n for n in ALL if n != "W"], "a longer last axis in", shaped(lambda s: [*s[:-1], s[-1] + 1]),
              "inputs[{}].shape"),
    *for_each(("W", "R", "B", "P", "initial_h", "initial_c"), "two directions in", shaped(lambda s: [2, *s[1:]]),
              "inputs[{}].shape"),
    *for_each(ALL, "a negative axis in", lambda n: tensor(n, shape=[-1] * RANKS[n]), "inputs[{}].shape"),
    *for_each(ALL, "a product above 2^63 in", lambda n: tensor(n, shape=[2**62] * RANKS[n]), "inputs[{}].shape"),
    *for_each(("X", "W", "R"), "2^32 times 2^32 wraps to nothing in", lambda n: tensor(n, shape=[2**32, 2**32, 1]),
              "inputs[{}].shape"),
    *[(f"{k} steps of X without data", "LSTM", tensor("X", shape=[v, N, I]),
       "inputs[X].raw" if v < 2**60 else "inputs[X].shape") for k, v in BIG.items()],
    *[(f"R of {k} columns without data", "LSTM", tensor("R", shape=[1, 16, v]),
       "inputs[R].raw" if v < 2**58 else "inputs[R].shape") for k, v in BIG.items()],
    *[(f"no rows of R, {k} columns", "LSTM", tensor("R", shape=[1, 0, v], raw=b""), "inputs[R].shape")
      for k, v in BIG.items()],
    ("2^61 - 1 floats", "LSTM", tensor("X", shape=[2**61 - 1, 1, 1]), "inputs[X].raw"),
    ("2^61 floats", "LSTM", tensor("X", shape=[2**61, 1, 1]), "inputs[X].shape"),
    ("an axis of -2^63", "LSTM", tensor("X", shape=[-2**63, 1, 1]), "inputs[X].shape"),
    ("two negative axes", "LSTM", tensor("X", shape=[-3, -2, 3]), "inputs[X].shape"),
    ("no elements, but 2^62 * 2^62 beside", "LSTM", tensor("X", shape=[0, 2**62, 2**62], raw=b""), "inputs[X].shape"),
    ("no elements, but 2^40 rows", "LSTM", tensor("X", shape=[0, 2**40, I], raw=b""), "inputs[X].shape"),
    ("a scalar X", "LSTM", tensor("X", shape=[], raw=b"\0\0\0\0"), "inputs[X].shape"),
    ("nine axes", "LSTM", tensor("X", shape=[1] * 9, raw=b"\0\0\0\0"), "inputs[X].shape"),
    ("ten thousand axes", "LSTM", tensor("X", shape=[1] * 10000, raw=b"\0\0\0\0"), "inputs[X].shape"),
    ("W wider than X", "LSTM", zeros("W", 1, 4 * H, I + 1), "inputs[X].shape"),
    ("W of three gates", "LSTM", zeros("W", 1, 3 * H, I), "inputs[W].shape"),
    ("R of three gates", "LSTM", zeros("R", 1, 3 * H, H), "inputs[R].shape"),
    ("W of four gates for GRU", "GRU", zeros("W", 1, 4 * H, I), "inputs[W].shape"),
    ("B of one half", "LSTM", zeros("B", 1, 4 * H), "inputs[B].shape"),
    ("P of four blocks", "LSTM", zeros("P", 1, 4 * H), "inputs[P].shape"),
    ("H = 0", "LSTM", both(zeros("R", 1, 0, 0), attr(hidden_size=None)), "inputs[R].shape"),
    ("one direction for bidirectional", "LSTM", attr(direction="bidirectional"), "inputs[R].shape"),
    ("two directions for reverse", "biLSTM", attr(direction="reverse"), "inputs[R].shape"),
    ("initial_h of other rows", "LSTM", zeros("initial_h", 1, N + 1, H), "inputs[initial_h].shape"),
    ("initial_h batch-first in layout 0", "LSTM", zeros("initial_h", N, 1, H), "inputs[initial_h].shape"),
    ("initial_h direction-first in layout 1", "LSTM", attr(layout=1), "inputs[sequence_lens].shape"),
    # Types.
    *for_each(ALL, "no type for", lambda n: tensor(n, data_type=0), "inputs[{}].data_type"),
    *for_each(("X", "W", "sequence_lens"), "type STRING for", lambda n: tensor(n, data_type=8), "inputs[{}].data_type"),
    *for_each(("X", "W", "sequence_lens"), "type 2^31 - 1 for", lambda n: tensor(n, data_type=2**31 - 1),
              "inputs[{}].data_type"),
    *for_each(FLOATING, "float64 beside float32 W for",
              lambda n: value(n, CASES["LSTM"].tensors[n].astype(np.float64)), "inputs[{}].data_type"),
    ("float16 W beside float32", "LSTM", zeros("W", 1, 16, 3, dtype=np.float16), "inputs[R].data_type"),
    ("int32 weights", "LSTM", zeros("W", 1, 16, 3, dtype=np.int32), "inputs[W].data_type"),
    ("int64 lengths", "LSTM", lengths(1, 1, dtype=np.int64), "inputs[sequence_lens].data_type"),
    ("float lengths", "LSTM", lengths(1, 1, dtype=np.float32), "inputs[sequence_lens].data_type"),
    ("bfloat16 below version 22", "LSTM", tensor("W", data_type=wire.tensor_pb2.BFLOAT16, raw=b"\0" * 96),
     "inputs[W].data_type"),
    # Lengths.
    *[(f"a length of {v}", "LSTM", lengths(1, v), "inputs[sequence_lens]") for v in (-1, T + 1, -2**31, 2**31 - 1)],
    *[(f"an int64 length of {v}", "LSTMSequence", lengths(1, v, name="sequence_lengths", dtype=np.int64),
       "inputs[sequence_lengths]") for v in (-1, T + 1, 2**32, 2**32 + 1, -2**63, 2**63 - 1)],
    ("too few lengths", "LSTM", lengths(1), "inputs[sequence_lens].shape"),
    ("too many lengths", "LSTM", lengths(1, 1, 1), "inputs[sequence_lens].shape"),
    # Names of tensors.
    *for_each(ALL, "twice", again, "inputs[{}]"),
    *for_each(("X", "W", "R"), "without", drop, "inputs[{}]"),
    ("an input x", "LSTM", zeros("x", 1), "inputs[x]"),
    ("an output as input", "LSTM", zeros("Y", 1), "inputs[Y]"),
    ("initial_c for GRU", "GRU", zeros("initial_c", 1, N, H), "inputs[initial_c]"),
    ("P for RNN", "RNN", zeros("P", 1, 3 * H), "inputs[P]"),
    ("OpenVINO's name in ONNX", "LSTM", zeros("initial_hidden_state", N, 1, H), "inputs[initial_hidden_state]"),
    ("ONNX's name in OpenVINO", "LSTMSequence", zeros("initial_h", 1, N, H), "inputs[initial_h]"),
    ("a tensor without a name", "LSTM", tensor("X", name=""), "inputs[0].name"),
    ("a name of 1000 bytes", "LSTM", tensor("X", name="X" * 1000), "inputs[0].name"),
    ("a name with a newline", "LSTM", zeros("X\n", 1), "inputs[X\\n]"),
    ("a hundred tensors", "LSTM", both(*[zeros(f"X{k}", 1) for k in range(100)]), "inputs"),
    # The operator.
    *[(f"domain {v!r}", "LSTM", op(domain=v), "operator.domain")
      for v in ("com.microsoft", "ONNX", "Openvino", "d" * 999)],
    *[(f"op_type {v!r}", "LSTM", op(op_type=v), "operator.op_type")
      for v in ("", "lstm", "LSTMCell", "Conv", "LSTMSequence", "O" * 999)],
    ("an ONNX operator in openvino", "LSTMSequence", op(op_type="LSTM"), "operator.op_type"),
    ("neither version nor opset", "LSTM", op(version=None), "operator.version"),
    ("both version and opset", "LSTM", op(opset=14), "operator.version"),
    *[(f"LSTM-{v}", "LSTM", op(version=v), "operator.version")
      for v in (0, -1, 2, 3, 13, 21, 23, 2**31, 2**63 - 1, -2**63)],
    *[(f"opset {v}", "LSTM", op(version=None, opset=v), "operator.opset") for v in (0, -1, -2**63)],
    ("LSTMSequence-2", "LSTMSequence", op(version=2), "operator.version"),
    ("GRUSequence-1", "GRUSequence", op(version=1), "operator.version"),
    ("RNNSequence of opset 4", "RNNSequence", op(version=None, opset=4), "operator.opset"),
    # Attributes.
    at("an unknown attribute", foo=1),
    at("an attribute in other case", Clip=1.0),
    at("the other operator's attribute", linear_before_reset=1),
    at("OpenVINO's spelling of alpha", activations_alpha=[0.1]),
    at("output_sequence in 14", output_sequence=1),
    ("input_forget of GRU", "GRU", attr(input_forget=1), "operator.attributes[input_forget]"),
    ("layout in 7", "LSTM", both(op(version=7), attr(layout=0)), "operator.attributes[layout]"),
    ("linear_before_reset of GRU-1", "GRU", both(op(version=1), attr(linear_before_reset=0)),
     "operator.attributes[linear_before_reset]"),
    ("an attribute without a name", "LSTM", attr(**{"": 1}), "operator.attributes[]"),
    at("an attribute without a value", clip=...),
    *[at(f"layout {v}", layout=v) for v in (2, -1, 2**32, 1.0, "1")],
    *[at(f"hidden_size {v!r}", hidden_size=v)
      for v in (0, -1, H + 1, 2**31, 2**32 + H, 2**62, 2**63 - 1, 4.0, "4", [4])],
    *[at(f"direction {v!r}", direction=v) for v in ("", "Forward", "foward", "both", "forward ", 0)],
    *[at(f"clip {v!r}", clip=v) for v in (NAN, 0.0, -0.0, -1.0, -INF, 0, -3, "1", [1.0])],
    at("input_forget as a float", input_forget=1.0),
    at("activations as one string", activations="Tanh"),
    *[at(f"{len(v)} activations", activations=v) for v in (["Tanh"], ["Tanh"] * 2, ["Tanh"] * 4, ["Tanh"] * 6)],
    at("ten thousand activations", activations=["Tanh"] * 10000),
    *[at(f"activation {v!r}", activations=["Sigmoid", v, "Tanh"]) for v in ("", "Tanhh", "Gelu", "Tanh ", "T" * 999)],
    ("three activations of bidirectional", "biLSTM", attr(activations=["Sigmoid", "Tanh", "Tanh"]),
     "operator.attributes[activations]"),
    ("two activations of RNN-14 in other case, one unknown", "RNN", attr(activations=["TANH", "Gelu"]),
     "operator.attributes[activations]"),
    ("three activations of RNN", "RNN", attr(activations=["Tanh"] * 3), "operator.attributes[activations]"),
    *[at(f"{n} alphas that nobody takes", activation_alpha=[0.5] * n) for n in (1, 2, 4, 1000)],
    at("betas that nobody takes", activation_beta=[0.5, 0.5]),
    ("two alphas, one taker, three functions", "LSTM",
     attr(activations=["Elu", "Tanh", "Tanh"], activation_alpha=[0.5, 0.5]),
     "operator.attributes[activation_alpha]"),
    ("alpha NaN", "LSTM", attr(activations=["Elu", "Tanh", "Tanh"], activation_alpha=[NAN]),
     "operator.attributes[activation_alpha]"),
    ("beta NaN", "LSTM", attr(activations=["HardSigmoid", "Tanh", "Tanh"], activation_beta=[NAN]),
     "operator.attributes[activation_beta]"),
    ("alpha as one float", "LSTM", attr(activations=["Elu", "Tanh", "Tanh"], activation_alpha=0.5),
     "operator.attributes[activation_alpha]"),
    ("alpha as strings", "LSTM", attr(activations=["Elu", "Tanh", "Tanh"], activation_alpha=["0.5"]),
     "operator.attributes[activation_alpha]"),
    ("a hundred attributes", "LSTM", attr(**{f"a{k}": 1 for k in range(100)}), "operator.attributes"),
    # OpenVINO.
    *[(f"OpenVINO without {n}", "LSTMSequence", drop(n), f"inputs[{n}]")
      for n in ("X", "W", "R", "B", "initial_hidden_state", "initial_cell_state", "sequence_lengths")],
    *[(f"OpenVINO without {n}", "GRUSequence", attr(**{n: None}), f"operator.attributes[{n}]")
      for n in ("hidden_size", "direction")],
    *[(f"OpenVINO clip {v}", "LSTMSequence", attr(clip=v), "operator.attributes[clip]") for v in (NAN, -1.0, -INF)],
    ("OpenVINO with layout", "LSTMSequence", attr(layout=1), "operator.attributes[layout]"),
    ("OpenVINO with input_forget", "LSTMSequence", attr(input_forget=1), "operator.attributes[input_forget]"),
    ("OpenVINO with elu", "RNNSequence", attr(activations=["elu"]), "operator.attributes[activations]"),
    ("OpenVINO activations given twice", "RNNSequence", attr(activations=["tanh", "tanh"]),
     "operator.attributes[activations]"),
    ("OpenVINO alphas more than functions", "GRUSequence", attr(activations_alpha=[1.0] * 3),
     "operator.attributes[activations_alpha]"),
    ("linear_before_reset 2", "GRUSequence", attr(linear_before_reset=2), "operator.attributes[linear_before_reset]"),
    ("three bias blocks with linear_before_reset", "GRUSequence", attr(linear_before_reset=1), "inputs[B].shape"),
    ("four bias blocks without linear_before_reset", "GRUSequence", zeros("B", 1, 4 * H), "inputs[B].shape"),
    ("X time-first in OpenVINO", "LSTMSequence", zeros("X", T, N, I), "inputs[sequence_lengths].shape"),
    ("an ONNX output of OpenVINO", "LSTMSequence", outputs("Y_h"), "outputs[Y_h]"),
    # Outputs and the request's own fields.
    *[(f"output {v!r}", "LSTM", outputs(v), f"outputs[{v}]") for v in ("Z", "y", "X", "")],
    ("output Y_c of GRU", "GRU", outputs("Y", "Y_c"), "outputs[Y_c]"),
    ("output Y twice", "LSTM", outputs("Y", "Y_h", "Y"), "outputs[Y]"),
    ("a hundred outputs", "LSTM", outputs(*["Y"] * 100), "outputs[Y]"),
    ("request_id of 129 bytes", "LSTM", set_(request_id="r" * 129), "request_id"),
    *[(f"priority {v}", "LSTM", set_(priority=v), "priority") for v in (101, -101, 2**31 - 1, -2**31)],
    *[(f"engine {v!r}", "LSTM", set_(engine=v), "engine") for v in ("gpu", "CPU", "cpu ", "e" * 999)],
    ("empty_row_state 7", "LSTM", lambda r: setattr(r.options, "empty_row_state", 7), "options.empty_row_state"),
    ("no target", "LSTM", lambda r: r.ClearField("target"), "target"),
    ("nothing at all", "LSTM", sends(b""), "target"),
    # Limits.
    ("a reply of 256 MiB", "LSTM", both(*[drop(n) for n in ("sequence_lens", "initial_h", "initial_c", "B", "P")],
                                        zeros("W", 1, 4 * 64, 0), zeros("R", 1, 4 * 64, 64), attr(hidden_size=64),
                                        tensor("X", shape=[2**20, 1, 0], raw=b"")), LIMIT(field="outputs")),
    ("half a million rows and one in two directions", "biLSTM",
     both(*[drop(n) for n in ("sequence_lens", "initial_h", "initial_c", "B", "P")], zeros("W", 2, 4, 0),
          zeros("R", 2, 4, 1), attr(hidden_size=1), tensor("X", shape=[1, 2**19 + 1, 0], raw=b"")),
     LIMIT(field="inputs[X].shape")),
    ("fifty thousand empty tensors", "LSTM", sends(b"\x2a\x00" * 50000), LIMIT()),
    # Models and fingerprints.
    ("an unknown model", "model", lambda r: setattr(r.model, "name", "nobody"), NOT_FOUND(reason="MODEL_UNKNOWN")),
    ("an unknown version", "model", lambda r: setattr(r.model, "version", 9), NOT_FOUND(reason="MODEL_UNKNOWN")),
    ("a model with a path for a name", "model", lambda r: setattr(r.model, "name", "../lstm"),
     NOT_FOUND(reason="MODEL_UNKNOWN")),
    ("a model without a name", "model", lambda r: setattr(r.model, "name", ""), "model.name"),
    ("version 0 of a model", "model", lambda r: setattr(r.model, "version", 0), "model.version"),
    ("weights beside a model", "model", zeros("W", 1, 16, 3), "inputs[W]"),
    ("X too wide for the model", "model", zeros("X", T, N, I + 1), "inputs[X].shape"),
    ("X twice beside a model", "model", again("X"), "inputs[X]"),
    ("no X beside a model", "model", drop("X"), "inputs[X]"),
    ("float64 X beside a float32 model", "model", zeros("X", T, N, I, dtype=np.float64), "inputs[X].data_type"),
    ("a fingerprint nobody holds", "model", set_(fingerprint="0" * 64), NOT_FOUND(reason="FINGERPRINT_EVICTED")),
    *[(f"fingerprint {what}", "model", set_(fingerprint=v), "fingerprint")
      for what, v in (("of 63 digits", "0" * 63), ("of 65 digits", "0" * 65), ("with a letter g", "g" + "0" * 63),
                      ("that is empty", ""), ("of 100 kB", "0" * 100000))],
    # Models.Load, Unload, Get.
    *[(f"Load of the name {v[:9]!r}", "Load", set_(name=v), "name")
      for v in ("", ".hidden", "a/b", "../a", "a b", "a\0b", "ä", "a" * 129)],
    *[(f"Load of version {v}", "Load", set_(version=v), "version") for v in (0, -1, -2**63)],
    ("Load of nothing", "Load", lambda r: r.ClearField("source"), "source"),
    ("Load of an empty upload", "Load", lambda r: r.inline.Clear() or r.inline.SetInParent(),
     "inline.operator.op_type"),
    ("Load for an unknown engine", "Load", set_(engine="gpu"), "engine"),
    *[(f"Load without {n}", "Load", drop(n), f"inline.weights[{n}]") for n in ("W", "R")],
    ("Load with W twice", "Load", again("W"), "inline.weights[W]"),
    ("Load with X", "Load", zeros("X", T, N, I), "inline.weights[X]"),
    ("Load with W of three gates", "Load", zeros("W", 1, 3 * H, I), "inline.weights[W].shape"),
    ("Load with a byte too few", "Load", raw(lambda b: b[:-1])("R"), "inline.weights[R].raw"),
    ("Load with 2^62 rows", "Load", tensor("W", shape=[1, 2**62, 4]), "inline.weights[W].shape"),
    ("Load with clip NaN", "Load", attr(clip=NAN), "inline.operator.attributes[clip]"),
    ("Load of LSTM-3", "Load", op(version=3), "inline.operator.version"),
    ("Load from a repository that is not there", "Load", set_(repository=True),
     Refused(grpc.StatusCode.FAILED_PRECONDITION)),
    ("Unload of an unknown model", "Unload", lambda r: setattr(r.model, "name", "nobody"),
     NOT_FOUND(reason="MODEL_UNKNOWN")),
    ("Unload of an unknown version", "Unload", lambda r: setattr(r.model, "version", 9),
     NOT_FOUND(reason="MODEL_UNKNOWN")),
    ("Unload of nothing", "Unload", sends(b""), "model.name"),
    ("Get of an unknown model", "Get", lambda r: setattr(r.model, "name", "nobody"), NOT_FOUND(reason="MODEL_UNKNOWN")),
    ("Get of version -1", "Get", lambda r: setattr(r.model, "version", -1), "model.version"),
    ("Get of an unknown fingerprint", "Get", set_(fingerprint="f" * 64), NOT_FOUND(reason="FINGERPRINT_EVICTED")),
    ("Get of a short fingerprint", "Get", set_(fingerprint="f"), "fingerprint"),
    ("Get of nothing", "Get", sends(b""), "by"),
    # Bytes that are no message.
    ("random bytes", "LSTM", sends(np.random.default_rng(1).bytes(1000)), NO_MESSAGE),
    ("half a megabyte of random bytes", "LSTM", sends(np.random.default_rng(2).bytes(1 << 19)), NO_MESSAGE),
    ("all ones", "LSTM", sends(b"\xff" * 100), NO_MESSAGE),
    ("a tag of field 0", "LSTM", sends(b"\x00"), NO_MESSAGE),
    ("a good message without its last byte", "LSTM", cut, NO_MESSAGE),
    ("a length beyond the end", "LSTM", sends(b"\x2a\xff\xff\xff\xff\x07"), NO_MESSAGE),
    ("a length above 2^31", "LSTM", sends(b"\x2a\xff\xff\xff\xff\x0f"), NO_MESSAGE),
    ("a varint without end", "LSTM", sends(b"\x48" + b"\x80" * 20), NO_MESSAGE),
    ("a group that never ends", "LSTM", sends(b"\x0b"), NO_MESSAGE),
    ("groups a hundred thousand deep", "LSTM", sends(b"\x7b" * 100000), Refused()),
    ("a name that is not UTF-8", "LSTM", sends(b"\x2a\x04\x0a\x02\xff\xfe"), NO_MESSAGE),
    ("text instead of a message", "LSTM", sends(b'{"operator": {"opType": "LSTM"}}'), NO_MESSAGE),
    ("random bytes for Load", "Load", sends(np.random.default_rng(3).bytes(1000)), NO_MESSAGE),
    ("a cut Load", "Load", cut, NO_MESSAGE),
    ("random bytes for Get", "Get", sends(b"\xff" * 10), NO_MESSAGE),
]
