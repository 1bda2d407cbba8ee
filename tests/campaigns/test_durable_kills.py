# SPDX-License-Identifier: Apache-2.0
"""200 faults on three servers of one store: no answered operation is lost, doubled or wrong (durable_kills.py).
RNNSERVE_FAULTS and RNNSERVE_SEED set others."""

import os

import durable_kills
import pytest
from redis_process import HAS_REDIS, WITHOUT_REDIS

pytestmark = pytest.mark.skipif(not HAS_REDIS, reason=WITHOUT_REDIS)


def test_nothing_that_was_answered_is_lost(tmp_path, tell):
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    tally = durable_kills.run(secret, faults=int(os.environ.get("RNNSERVE_FAULTS", "200")),
                              seed=int(os.environ.get("RNNSERVE_SEED", "1")), tell=tell)
    tell(f"faults {tally.faults}; {tally.answered} operations answered, {tally.sent_again} sent again, "
         f"longest stall {tally.longest_stall:.1f} s")
    assert not tally.problems, tally.problems[:10]
