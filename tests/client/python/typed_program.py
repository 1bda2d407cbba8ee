# SPDX-License-Identifier: Apache-2.0
"""A user's program, for the type checkers: what calls give, and mistakes that they have to find. It is never run."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import rnnserve
from rnnserve import aio, convert, formulas

Array = npt.NDArray[Any]
X = np.zeros((5, 1, 3), np.float32)


class Module:
    """As torch's have it."""

    def state_dict(self, *, keep_vars: bool = False) -> dict[str, Any]:
        return {}


def blocking(arrays: dict[str, Array]) -> None:
    op = rnnserve.lstm(X, X, direction="forward", clip=0.5, activations=["Tanh", "Tanh", "Tanh"])
    with rnnserve.Client("localhost:1", token=lambda: "t", metadata=[("x-a", "b")], options=[("grpc.a", 1)]) as client:
        assert_type(client.infer(op, {"X": X, "sequence_lens": [5]}, deterministic=True).outputs["Y"], Array)
        assert_type(client.infer(model="m", inputs=arrays, empty_row_state="zeros").queue_time, float)
        assert_type(client.load("m", op).options, rnnserve.Options)
        assert_type([info.position for info in client.sessions(page_size=10)], list[int])
        with client.session(op, outputs="Y_h", deterministic=True) as session:
            assert_type(session, rnnserve.Session)
            assert_type(session.feed(X, timeout=3), dict[str, Array])
            assert_type(session.feed_async({"X": X}), concurrent.futures.Future[dict[str, Array]])
            assert_type(list(session.replies([X, X])), list[dict[str, Array]])
            assert_type(session.fork(), rnnserve.Session)
            assert_type(session.fork(2), list[rnnserve.Session])
            assert_type(session.state(), rnnserve.State)
            assert_type(session.state()["initial_h"], Array)
            assert_type(session.close(), None)
        client.session("m", state=session.close(return_state=True))
    assert_type(convert.torch_lstm({"weight_ih_l0": X}), list[rnnserve.Operator])
    assert_type(convert.torch_lstm(Module()), list[rnnserve.Operator])
    assert_type(formulas.run(op, {"X": X})["Y"], Array)
    assert_type(rnnserve.convert.torch_output(X), Array)
    assert_type(rnnserve.__version__, str)


async def awaited() -> None:
    async with rnnserve.aio.Client("localhost:1") as client:
        assert_type((await client.infer(model="m", inputs={"X": X})).engine, str)
        async with client.session("m") as session:
            assert_type(session, aio.Session)
            assert_type(await session.feed(X), dict[str, Array])
            async for outputs in session.replies([X]):
                assert_type(outputs, dict[str, Array])
            assert_type(await session.fork(2), list[aio.Session])
        assert_type(await client.session("m"), aio.Session)
        assert_type([info.idle async for info in client.sessions()], list[float])


def mistakes(client: rnnserve.Client) -> None:
    client.infer(5, {"X": X})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.infer(model="m", inputs={"X": X}, determinstic=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.infer(model="m", empty_row_state="zero")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.session("m").feed(X).shape  # type: ignore[attr-defined]  # pyright: ignore
    rnnserve.Client("localhost:1", timeout="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
