# SPDX-License-Identifier: Apache-2.0
"""Sessions: state that the server keeps between chunks, and that survives lost connections and servers."""

from rnnserve.sessions.operations import State
from rnnserve.sessions.session import Session

__all__ = ["Session", "State"]
