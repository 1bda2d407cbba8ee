# SPDX-License-Identifier: Apache-2.0
"""Files of models on their way: whole, told of as they go, and nothing left of what breaks off."""

import asyncio
import io
import threading

import grpc
import pytest

import rnnserve
import rnnserve.aio
from rnnserve.transfer import ProgressLine, shown

CONTENT = bytes(range(256)) * 12_345  # 3.01 MiB


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_file_goes_in_pieces_and_comes_back(server, client, tmp_path):
    (tmp_path / "model.onnx").write_bytes(CONTENT)
    told = []
    client.load("m", tmp_path / "model.onnx", progress=lambda done, total: told.append((done, total)))
    assert server.files["m"] == CONTENT
    assert told == [(done, len(CONTENT)) for done in (1 << 20, 2 << 20, 3 << 20, len(CONTENT))]
    told.clear()
    info = client.save("m", tmp_path / "saved.onnx", 2, progress=lambda done, total: told.append((done, total)))
    assert (info.name, info.version) == ("m", 2)
    assert (tmp_path / "saved.onnx").read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT)) and not (tmp_path / "saved.onnx.part").exists()


def test_the_same_awaited(server, tmp_path):
    async def run():
        async with rnnserve.aio.Client(server.address) as client:
            await client.load("awaited", CONTENT)
            await client.save("awaited", tmp_path / "awaited.onnx")
            for _ in range(5):  # while the client sends
                server.refusals = [(grpc.StatusCode.PERMISSION_DENIED, None)]
                with pytest.raises(rnnserve.RnnServeError, match="PERMISSION_DENIED"):
                    await client.load("m", CONTENT)
            halted = threading.Event()
            loading = asyncio.create_task(client.load("m", CONTENT, progress=lambda done, total: halted.wait(10)))
            await asyncio.sleep(0.2)
            loading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loading
            halted.set()

    asyncio.run(run())
    assert (tmp_path / "awaited.onnx").read_bytes() == CONTENT


def test_nothing_is_left_of_a_file_that_is_not_whole(server, client, tmp_path):
    client.load("m", CONTENT)
    (tmp_path / "old.onnx").write_bytes(b"before")
    server.cut_short = 5000
    with pytest.raises(rnnserve.RnnServeError, match="DATA_LOSS.*of 3160320 bytes"):
        client.save("m", tmp_path / "old.onnx")
    server.refusals = [(grpc.StatusCode.NOT_FOUND, None, "MODEL_UNKNOWN")]
    with pytest.raises(rnnserve.RnnServeError, match="MODEL_UNKNOWN"):
        client.save("m", tmp_path / "old.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["old.onnx"]
    assert (tmp_path / "old.onnx").read_bytes() == b"before"


def test_what_the_callers_own_function_raises_ends_the_call_and_is_raised(client, tmp_path):
    def refuse(done, total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.load("m", CONTENT, progress=refuse)
    client.load("m", CONTENT)
    with pytest.raises(KeyError, match="mine"):
        client.save("m", tmp_path / "m.onnx", progress=refuse)
    assert not list(tmp_path.iterdir())


def test_a_refusal_is_raised_as_it_came(server, client):
    server.refusals = [(grpc.StatusCode.RESOURCE_EXHAUSTED, 1.5)]
    with pytest.raises(rnnserve.RnnServeError) as refused:
        client.load("m", CONTENT)
    assert refused.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED and refused.value.retry_after == 1.5


def test_a_terminal_shows_how_far_it_is_and_a_pipe_stays_silent(monkeypatch, server, client):
    terminal, now = Terminal(), iter([0, 0.05, 0.5, 0.55, 2])
    line = ProgressLine("sent", terminal, lambda: next(now))
    for mib in (1, 2, 3, 4):
        line(mib << 20, 4 << 20)
    assert terminal.getvalue() == ("\r\x1b[Ksent 2.0 of 4.0 MiB, 50 %, 4.0 MiB/s"
                                   "\r\x1b[Ksent 4.0 of 4.0 MiB, 100 %, 2.0 MiB/s")
    line.end()
    assert terminal.getvalue().endswith("\r\x1b[K")
    for output in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", output)
        client.load("m", CONTENT, progress=True)
        assert ("100 %" in output.getvalue()) == output.isatty()
        assert output.isatty() or not output.getvalue()
    with shown("sent", False) as show:
        show(1, 2)
