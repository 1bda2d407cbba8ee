# SPDX-License-Identifier: Apache-2.0
"""200 faults on three servers of one store: no answered operation is lost, doubled or wrong (durable_kills.py), for raw
callers and both client libraries. As root with iproute2, cables are pulled, too. RNNSERVE_FAULTS and RNNSERVE_SEED set
others."""

import os

import cable
import durable_clients
import durable_kills
import pytest
from redis_process import HAS_REDIS, WITHOUT_REDIS

pytestmark = pytest.mark.skipif(not HAS_REDIS, reason=WITHOUT_REDIS)


@pytest.fixture
def cables(tell):
    if not cable.are_allowed():
        tell("no cable is pulled: this user may not make network namespaces")
        yield []
        return
    made = [cable.Cable(number) for number in range(3)]
    yield made
    for one in made:
        one.remove()


def test_nothing_that_was_answered_is_lost(tmp_path, cables, tell):
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    durable_clients.write_model(tmp_path / "models")
    # 64 sessions: 40 raw, 16 of Python, half of them INTERVAL, 8 of C++.
    clients = [durable_clients.PythonClient, durable_clients.IntervalClient]
    if durable_clients.RNNCTL.exists():
        clients += [durable_clients.RnnctlClient] * 8
    tally = durable_kills.run(durable_kills.Cluster(secret, f"--models={tmp_path / 'models'}", cables=cables),
                              faults=int(os.environ.get("RNNSERVE_FAULTS", "200")), clients=5, sessions=8,
                              seed=int(os.environ.get("RNNSERVE_SEED", "1")), others=clients, tell=tell)
    stalls = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in tally.longest_stall.items())
    tell(f"faults {tally.faults}; {tally.answered} operations answered, {tally.sent_again} sent again by raw callers, "
         f"longest stall: {stalls}")
    assert not tally.problems, tally.problems[:10]
