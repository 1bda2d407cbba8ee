# SPDX-License-Identifier: Apache-2.0
import fake_server
import pytest

import rnnserve


@pytest.fixture
def server():
    fake = fake_server.FakeServer()
    yield fake
    fake.stop()


@pytest.fixture
def client(server):
    with rnnserve.Client(server.address, timeout=30) as client:
        yield client
