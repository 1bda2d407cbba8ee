# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import importlib.metadata
import itertools
import subprocess
import sys

import grpc
import numpy as np
import pytest

import rnnserve
from rnnserve import formulas

RNG = np.random.default_rng(5)
X = RNG.standard_normal((4, 2, 3)).astype(np.float32)


def make_operator(seed=0, **attributes):
    rng = np.random.default_rng(seed)
    return rnnserve.lstm(rng.standard_normal((1, 20, 3)).astype(np.float32),
                         rng.standard_normal((1, 20, 5)).astype(np.float32), **attributes)


def test_result_of_an_infer(client):
    op = make_operator()
    result = client.infer(op, {"X": X, "sequence_lens": [4, 2]}, request_id="mine")
    expected = formulas.run(op, {"X": X, "sequence_lens": [4, 2]})
    assert set(result.outputs) == {"Y", "Y_h", "Y_c"}
    for name, value in result.outputs.items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-6)
    assert (result.engine, result.largest_batch, result.warnings) == ("formulas", 7, ["a remark"])
    assert (result.queue_time, result.compute_time, result.request_id) == (1.5, 0.0, "mine")


def test_no_proxy_is_asked_for_this_machine(client, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with rnnserve.Client(client._addresses[0]) as here:
        assert here.infer(make_operator(), {"X": X}, timeout=60).engine == "formulas"


def test_weights_are_sent_once_and_again_when_the_server_dropped_them(server, client):
    op = make_operator()
    first = client.infer(op, {"X": X}).outputs["Y"]
    second = client.infer(op, {"X": X}).outputs["Y"]
    server.evict()
    third = client.infer(op, {"X": X}).outputs["Y"]
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    seen = [(request.WhichOneof("target"), [tensor.name for tensor in request.inputs]) for request in server.requests]
    whole, short = ("operator", ["X", "W", "R"]), ("fingerprint", ["X"])
    assert seen == [whole, short, short, whole]


def test_weights_among_the_inputs_go_along_every_time(server, client):
    op = make_operator()
    bare = rnnserve.Operator("LSTM", version=14)
    for _ in range(2):
        result = client.infer(bare, {"X": X, **op.weights})
    assert [request.WhichOneof("target") for request in server.requests] == ["operator", "operator"]
    np.testing.assert_array_equal(result.outputs["Y"], client.infer(op, {"X": X}).outputs["Y"])


def test_another_not_found_is_not_mended(server, client):
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.infer(fingerprint="0" * 64, inputs={"X": X})
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.NOT_FOUND, "FINGERPRINT_EVICTED")
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.infer(model="nobody", inputs={"X": X})
    assert caught.value.reason == "MODEL_UNKNOWN" and len(server.requests) == 2


def test_options_of_the_operator_and_of_the_call(server, client):
    op = make_operator(clip=0.5)
    parity = rnnserve.Operator("LSTM", version=14, attributes=op.attributes, weights=op.weights,
                               options={"clip_cell_input": False, "deterministic": True})
    client.infer(parity, {"X": X}, clip_cell_input=True, outputs=["Y_h"], engine="cpu", priority=-3)
    request = server.requests[0]
    assert request.options.clip_cell_input and request.options.deterministic
    assert not request.options.HasField("empty_row_state")
    assert (list(request.outputs), request.engine, request.priority) == (["Y_h"], "cpu", -3)


def test_load_and_call_by_name(server, client):
    op = make_operator()
    model = client.load("tagger", op, version=3, empty_row_state="initial")
    assert (model.name, model.version, model.source) == ("tagger", 3, "upload")
    assert model.options == {"empty_row_state": "initial"} and model.operator.op_type == "LSTM"
    assert model.inputs == [rnnserve.TensorSpec("X", "FLOAT", ["T", "N", "3"], False)]
    by_name = client.infer(model="tagger", version=3, inputs={"X": X})
    assert server.requests[-1].model.version == 3
    short = client.infer("tagger", {"X": X}, version=2)
    assert (server.requests[-1].model.name, server.requests[-1].model.version) == ("tagger", 2)
    np.testing.assert_array_equal(short.outputs["Y"], by_name.outputs["Y"])
    np.testing.assert_array_equal(by_name.outputs["Y"], client.infer(op, {"X": X}).outputs["Y"])


def test_layers_and_files_are_models_too(server, client, tmp_path):
    layers = [rnnserve.lstm(np.ones((1, 20, inputs)), np.ones((1, 20, 5)), options={"deterministic": True})
              for inputs in (3, 5)]
    assert client.load("stack", layers, version=2).source == "upload"
    request = server.requests[-1]
    assert [[tensor.name for tensor in layer.weights] for layer in request.stack.layers] == [["W", "R"]] * 2
    assert [list(layer.weights[0].shape) for layer in request.stack.layers] == [[1, 20, 3], [1, 20, 5]]
    assert request.options.deterministic and request.version == 2
    client.load("file", b"bytes of a file", engine="cpu")
    assert (server.files["file"], server.requests[-1].engine) == (b"bytes of a file", "cpu")
    (tmp_path / "model.onnx").write_bytes(b"the file itself")
    client.load("file", tmp_path / "model.onnx", version=4)
    assert (server.files["file"], server.requests[-1].version) == (b"the file itself", 4)
    before = len(server.requests)
    other = rnnserve.lstm(np.ones((1, 20, 5)), np.ones((1, 20, 5)))
    for model, weights, error, text in [([], None, TypeError, "an empty list"), ("model.onnx", None, TypeError, "type str"),
                                        ([layers[0], "x"], None, TypeError, "holds other things"),
                                        (None, None, TypeError, "pathlib.Path or bytes"),
                                        ([layers[0], other], None, ValueError, "different options"),
                                        (layers, {"W": np.ones(1)}, ValueError, "weights belong to one Operator")]:
        with pytest.raises(error, match=text):
            client.load("m", model, weights)
    assert len(server.requests) == before


def test_calls_that_contradict_themselves_never_leave(server, client):
    op = make_operator()
    for arguments, text in [({}, "exactly one of op, model"), ({"op": op, "model": "m"}, "exactly one of op, model"),
                            ({"op": op, "version": 1}, "version belongs to model"),
                            ({"op": op, "inputs": {"W": X}}, "W is bound to the operator"),
                            ({"op": op, "clip_cell": True}, "'clip_cell' is unknown")]:
        with pytest.raises(ValueError, match=text):
            client.infer(**arguments)
    with pytest.raises(ValueError, match="exactly one of name and fingerprint"):
        client.get()
    assert server.requests == []


def test_many_threads_share_a_client(server, client):
    operators = [make_operator(seed) for seed in range(3)]
    expected = [formulas.run(op, {"X": X})["Y"] for op in operators]

    def call(k):
        return k % 3, client.infer(operators[k % 3], {"X": X}).outputs["Y"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for k, Y in pool.map(call, range(48)):
            np.testing.assert_allclose(Y, expected[k], rtol=0, atol=1e-6)
    assert sum(request.WhichOneof("target") == "fingerprint" for request in server.requests) > 0


def test_a_server_that_is_not_there(server):
    server.stop()
    with rnnserve.Client(server.address) as client, pytest.raises(rnnserve.RnnServeError) as caught:
        client.health(timeout=20)
    assert caught.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@pytest.mark.parametrize("address, why", [("host", "no port"), ("http://h:1", "URL"), ("", "no port")])
def test_an_address_that_cannot_be_one(address, why):
    with pytest.raises(ValueError, match=why):
        rnnserve.Client(address)


def test_a_server_that_is_not_there_is_named(server):
    server.stop()
    with rnnserve.Client(server.address, timeout=30) as client, pytest.raises(rnnserve.RnnServeError) as caught:
        client.models()
    assert caught.value.code == grpc.StatusCode.UNAVAILABLE
    assert server.address in str(caught.value) and "is rnnserve running there?" in str(caught.value)


def test_one_output_by_its_name(server, client):
    client.infer(make_operator(), {"X": X}, outputs="Y_h")
    assert list(server.requests[0].outputs) == ["Y_h"]


def test_arguments_of_other_types_are_told(client):
    with pytest.raises(TypeError, match="arrays by name"):
        client.infer(make_operator(), X)
    with pytest.raises(TypeError, match="one Operator a layer"):
        client.infer([make_operator()], {"X": X})
    with pytest.raises(TypeError, match="model is of type dict"):
        client.load("name", {})
    with pytest.raises(TypeError, match="give a model's name, or an Operator"):
        client.infer(5, {"X": X})


def test_token_and_metadata_go_with_every_call(server):
    tokens = itertools.count()
    with rnnserve.Client(server.address, token=lambda: f"{next(tokens)}\n", metadata=[("x-tenant", "a"), ("x-raw-bin", b"\1")],
                         timeout=30) as client:
        client.infer(make_operator(), {"X": X})
        client.models()
        client.session(make_operator())
    assert len(server.metadata) == 3, "Open too"
    assert len({sent["authorization"] for sent in server.metadata}) == 3, "a new one each time"
    assert server.metadata[0]["authorization"] == "Bearer 0"
    assert {(sent["x-tenant"], sent["x-raw-bin"]) for sent in server.metadata} == {("a", b"\1")}
    with rnnserve.Client(server.address, token="fixed", timeout=30) as client:
        client.models()
    assert server.metadata[-1]["authorization"] == "Bearer fixed"


def test_a_token_that_is_not_there_for_a_moment_is_asked_for_again(server, client):
    tried = []

    def token():
        tried.append(True)
        if len(tried) in (1, 4):
            raise OSError("no such file")
        return "t"

    with rnnserve.Client(server.address, token=token) as client:
        assert client.infer(make_operator(), {"X": X}).engine == "formulas"
        client.session(make_operator())
    with rnnserve.Client(server.address, token=lambda: {}["x"], timeout=0) as client:
        with pytest.raises(rnnserve.RnnServeError, match="the token function raised KeyError"):
            client.models()


@pytest.mark.parametrize("pair, why", [(("X-Tenant", "a"), "lower-case"), (("x-raw-bin", "text"), "have bytes"),
                                       (("x-tenant", b"a"), "bytes, all others str")])
def test_metadata_that_cannot_be_sent_is_told_at_once(pair, why):
    with pytest.raises(ValueError, match=why):
        rnnserve.Client("localhost:1", metadata=[pair])


def test_channel_options_go_before_the_clients_own(server):
    with rnnserve.Client(server.address, options=[("grpc.max_receive_message_length", 64)], timeout=30) as client:
        with pytest.raises(rnnserve.RnnServeError) as caught:
            client.infer(make_operator(), {"X": X})
    assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in caught.value.message


def test_sessions_are_listed_page_by_page(server, client):
    server.sessions = 7
    listed = list(client.sessions(page_size=3))
    assert [info.session for info in listed] == [f"key {k}" for k in range(7)] and listed[0].idle == 0.5
    assert len(server.metadata) == 3
    assert len(list(client.sessions())) == 7 and len(server.metadata) == 4


def test_a_closed_client_says_so(server):
    client = rnnserve.Client(server.address)
    client.close()
    for call in (client.models, lambda: client.infer(make_operator(), {"X": X}), lambda: client.session("m")):
        with pytest.raises(rnnserve.RnnServeError, match="the client was closed") as caught:
            call()
        assert caught.value.code == grpc.StatusCode.CANCELLED


def test_what_is_there_after_import_and_what_is_imported_later():
    script = ("import sys, rnnserve\n"
              "before = [name for name in ('aio', 'convert', 'formulas') if f'rnnserve.{name}' in sys.modules]\n"
              "print(before, rnnserve.convert.torch_lstm.__name__, rnnserve.formulas.run.__name__,\n"
              "      rnnserve.aio.Client.__name__, rnnserve.__version__, 'convert' in dir(rnnserve))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    version = importlib.metadata.version("rnnserve")
    assert done.stdout == f"[] torch_lstm run Client {version} True\n"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        rnnserve.nothing


def test_what_a_client_and_a_session_are_shown_as(server):
    with rnnserve.Client(server.address, others=["b:2"]) as client:
        assert repr(client) == f"<rnnserve.Client of {server.address}, b:2>"
        assert repr(client.session("tagger")) == f"<Session of 'tagger', 0 steps, live at {server.address}>"
