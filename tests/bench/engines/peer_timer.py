# SPDX-License-Identifier: Apache-2.0
"""cell_timer's protocol (see cell_timer.cc) for onnxruntime and OpenVINO: peer_timer.py onnxruntime|openvino[/BFLOAT16]

Inputs and outputs are bound beforehand, so that a call is one call into the library. The call from Python is counted
to the peer: a few microseconds, measured as kind "none" (a graph that only copies its state).
"""

import functools
import statistics
import sys
import time

import numpy as np

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(kind, steps, rows, units):
    """An ONNX model with one recurrent node and constant weights, and its inputs."""
    from onnx import TensorProto, checker, helper, numpy_helper

    random = np.random.default_rng(1)
    bound = 1 / np.sqrt(units)

    def values(*shape, limit=1.0):
        return random.uniform(-limit, limit, shape).astype(np.float32)

    inputs = {"X": values(steps, rows, units), "initial_h": values(1, rows, units)}
    outputs = {"Y": [steps, 1, rows, units], "Y_h": [1, rows, units]}
    if kind == "LSTM":
        inputs["initial_c"], outputs["Y_c"] = values(1, rows, units), [1, rows, units]
    if kind == "none":
        outputs.pop("Y")
        nodes, constants = [helper.make_node("Identity", ["initial_h"], ["Y_h"])], {}
        inputs.pop("X")
    else:
        gates = GATES[kind]
        constants = {"W": values(1, gates * units, units, limit=bound), "R": values(1, gates * units, units, limit=bound),
                     "B": values(1, 2 * gates * units, limit=bound)}
        names = ["X", "W", "R", "B", "", "initial_h"] + (["initial_c"] if kind == "LSTM" else [])
        attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
        nodes = [helper.make_node(kind, names, list(outputs), hidden_size=units, **attributes)]
    graph = helper.make_graph(
        nodes, "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    checker.check_model(model)
    return model.SerializeToString(), inputs, outputs


def onnxruntime_call(kind, steps, rows, units, threads):
    import onnxruntime

    model, inputs, outputs = layer(kind, steps, rows, units)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    # The values read numpy's own memory and the binding does not own them: they live as long as the call.
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name, shape in outputs.items():
        binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32))
    run, bound = session._sess.run_with_iobinding, binding._iobinding
    return lambda owned=values: run(bound, None)


def openvino_call(precision, kind, steps, rows, units, threads):
    import openvino

    model, inputs, _ = layer(kind, steps, rows, units)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model, b""), "CPU",
                                  {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads,
                                   "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=False))
    infer = openvino._pyopenvino.InferRequest.infer  # without the wrapper that looks at the inputs each time
    return lambda: infer(request, {}, True, False)


def seconds(call, calls, clock):
    start = clock()
    for _ in range(calls):
        call()
    return (clock() - start) / calls


def median_seconds(call, span, clock):
    """As MedianSeconds of cell_timer.cc."""
    seconds(call, 1, clock)
    one = min(seconds(call, 1, clock), seconds(call, 1, clock))
    calls = max(1, min(int(0.5e-3 / one), 10000))
    samples, spent = [], 0
    while spent < span or len(samples) < 3:
        samples.append(seconds(call, calls, clock))
        spent += samples[-1] * calls
    return statistics.median(samples)


def serve(make):
    call = None
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "make":
            call = None
            try:
                call = make(words[0], *map(int, words[1:]))
                call()
                print("ok", flush=True)
            except Exception as error:  # the peer cannot run it: its cell stays empty
                print("no", str(error).replace("\n", " ")[:200], flush=True)
        else:
            clock = time.process_time if verb == "cpu-time" else time.perf_counter
            print(median_seconds(call, float(words[0]) * 1e-3, clock), flush=True)


if __name__ == "__main__":
    serve({"onnxruntime": onnxruntime_call, "openvino": functools.partial(openvino_call, "f32"),
           "openvino/BFLOAT16": functools.partial(openvino_call, "bf16")}[sys.argv[1]])
