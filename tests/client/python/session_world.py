# SPDX-License-Identifier: Apache-2.0
"""A journal between a user and a fake server, over a wire that the test moves by hand."""

import collections
import itertools

from fake_sessions import FakeServer

from rnnserve.sessions import operations as ops
from rnnserve.sessions.entry import Phase
from rnnserve.sessions.journal import Journal


class World:
    """One session between its user and servers; messages lie on the wire until the test moves them."""

    def __init__(self, keep_every=0, max_in_flight=8, window=16, write_every=0):
        self.keys = itertools.count(1)
        self.server = FakeServer(self.keys, window, write_every=write_every)
        self.window = window
        snapshot = ops.Snapshot(0, None) if keep_every else None
        self.journal = Journal(map(str, itertools.count(1)), max_in_flight=max_in_flight, keep_every=keep_every,
                               snapshot=snapshot, durable=write_every > 0)
        self.key = self.server.open(None)
        self.requests, self.replies = collections.deque(), collections.deque()
        self.heard = False  # the server has taken something off this connection
        self.outcomes = []  # (what, value, error) in the order in which they came
        self.pump()

    def do(self, operation, what=None, deadline=None):
        self.journal.add(operation, lambda value, error: self.outcomes.append((what, value, error)), deadline)
        self.pump()

    def feed(self, *values):
        self.do(ops.Chunk(list(values)), values)

    def pump(self):
        self.requests += self.journal.sendable()
        for on_done, value, error in self.journal.take_finished():
            on_done(value, error)

    def serve(self):
        """The server takes the next request off the wire."""
        if self.requests:
            self.heard = True
            sending = self.requests.popleft()
            self.replies.append((sending.tag, self.server.apply(self.key, sending)))

    def reply(self):
        if self.replies:
            self.journal.answered(*self.replies.popleft())
            self.pump()

    def nobody_there(self):
        """A connection that never came to be, until the next thing happens; where there is one, this is nothing."""
        if not self.heard:
            self.requests.clear()
            self.journal.cut(never_left=True)

    def cut(self):
        self.heard = False
        self.requests.clear()
        self.replies.clear()
        self.journal.cut()
        self.pump()

    def another_server(self):
        return FakeServer(self.keys, self.window, self.server.store, self.server.write_every)

    def kill(self):
        self.server = self.another_server()
        self.cut()

    def drain(self, tell=True):
        self.server.draining = True
        if tell:
            self.journal.drain()
        self.pump()

    def reopen(self):
        """What the driver does for a unplaced session."""
        if self.server.draining:
            self.server = self.another_server()
        self.heard = False
        self.requests.clear()
        self.replies.clear()
        self.key = self.server.open(self.journal.snapshot.state)
        self.journal.opened(durable=self.server.write_every > 0)
        self.pump()

    def follow(self):
        """What the driver does for a session that is adrift."""
        self.server = self.another_server()
        self.heard = False
        self.requests.clear()
        self.replies.clear()
        self.journal.followed(elsewhere=True)
        self.pump()

    def expire(self, now=1.0):
        self.journal.expire(now)
        self.pump()

    def release(self):
        self.journal.release()
        self.pump()

    def run(self):
        """Until nothing moves any more."""
        self.pump()
        for _ in range(2000):
            if self.journal.phase is Phase.UNPLACED:
                self.reopen()
            elif self.journal.phase is Phase.ADRIFT:
                self.follow()
            elif self.journal.hold_seconds is not None:
                self.release()
            elif self.requests:
                self.serve()
            elif self.replies:
                self.reply()
            else:
                return
        raise AssertionError("it never comes to rest")

    def log(self):
        self.do(ops.GetState(), "state")
        self.run()
        what, value, error = self.outcomes[-1]
        assert what == "state" and error is None, error
        return value["log"]
