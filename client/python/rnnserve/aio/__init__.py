# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio, on grpc.aio.

    async with rnnserve.aio.Client("localhost:50051") as client:
        result = await client.infer(rnnserve.lstm(W, R), {"X": X})
        async with client.session("vad", outputs=["Y_h"]) as session:
            y = await session.feed(x)
            async for y in session.replies(chunks):
                ...

A client belongs to the loop that runs when it is first used. What is sent again, carried over and replayed is as with
rnnserve.Client: both run the same code.
"""

from rnnserve.aio.client import Client
from rnnserve.aio.session import Session

__all__ = ["Client", "Session"]
