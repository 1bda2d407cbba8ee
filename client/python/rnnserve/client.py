# SPDX-License-Identifier: Apache-2.0
"""The client whose calls block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import grpc
import numpy.typing as npt

from rnnserve import results
from rnnserve.backends import ChannelOptions, Metadata
from rnnserve.backends.threads import Threads, finish
from rnnserve.core import ClientCore, Inputs, LoadBalancing, Token
from rnnserve.operators import Operator, Options
from rnnserve.results import ModelInfo, Result, SessionInfo
from rnnserve.sessions.session import Session
from rnnserve.transfer import Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Client(ClientCore):
    """A connection to an rnnserve server or to several, to be shared by any number of threads.

    address            "host:port", or "unix:path"; several servers with the same models by comma or as a list. A name with
                       several addresses (of a headless Service, say) stands for all of them and is looked up again every
                       30 s, and sooner after a failure
    max_message_bytes  bound of one request and one reply (gRPC's own default would be 4 MiB for replies);
                       raise it together with the server's
    credentials        grpc.ChannelCredentials for TLS; None: plain text
    timeout            seconds that a call may take where it names none; None: no limit
    others             further addresses
    load_balancing     "spread": see below. "pick_first": every call and session goes to the first address that takes it
    patience           seconds that a session, or an infer without a timeout, may be without a server that takes it
    token              bearer token of every call, or a function that gives it (of a file that changes); without TLS it
                       travels in plain text
    metadata           (key, value) pairs that go with every call
    options            gRPC channel arguments, (name, value) pairs, before this client's own

    Of several servers, an infer goes to the one with the fewest calls of this client in flight, in turn where these are
    equal. Sessions with a name are spread by its hash, so that every client with these addresses finds them where they
    are; sessions without one in turn. A server that cannot be reached, that leaves, or whose health (grpc.health.v1) is
    NOT_SERVING gets nothing until it is back. Calls that manage models, sessions() and health() go to the first address.

    An infer that a server refuses as UNAVAILABLE, as one does that leaves, or that finds none, is sent again: to each
    address in turn, to the same one when it said or after 0.05 s, 0.1 s, ... 1 s, until its timeout has passed, or
    `patience` where it has none. So is one whose connection broke while it was under way: it keeps nothing on the
    server, so to run it twice does no harm. So is the opening of a session, until `patience` is over. Where the engine
    that a call names is out of service, only the other addresses are asked. Where no server has ever answered this client,
    5 s is all once each address was asked: they may be wrong. patience=0: each server is asked once at most. Other errors,
    and calls that manage models, are never sent again.

    Every call raises RnnServeError with the server's code, text and field. Close it, or use it in a `with`.
    """

    def __init__(self, address: str | Iterable[str], *, max_message_bytes: int = 64 * 1024 * 1024,
                 credentials: grpc.ChannelCredentials | None = None, timeout: float | None = None,
                 others: Iterable[str] = (), patience: float = 60.0, token: Token | None = None, metadata: Metadata = (),
                 options: ChannelOptions = (), load_balancing: LoadBalancing = "spread") -> None:
        super().__init__(Threads(), address, max_message_bytes, credentials, timeout, others, patience, token, metadata,
                         options, load_balancing)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; calls under way end with CANCELLED, and so do sessions that are still open."""
        self._close()

    def infer(self, op: Operator | str | None = None, inputs: Inputs | None = None, *, model: str | None = None,
              version: int | None = None, fingerprint: str | None = None, outputs: str | Iterable[str] = (),
              engine: str = "", priority: int = 0, request_id: str = "", timeout: float | None = None,
              **options: Unpack[Options]) -> Result:
        """Runs one operator over whole sequences and returns a Result.

        Exactly one of op (an Operator, or a model's name), model (a name; version absent: the highest) and fingerprint
        says what to run.
        inputs: arrays by name. Weights that are bound to op go along by themselves: in full with the first call of
        this client, as a fingerprint after it, and in full again if the server has dropped them meanwhile.
        outputs: names wanted; none: the operator's default. engine: by name, "" lets the server choose.
        priority: -100 to 100, larger first. timeout: seconds, those included in which no server takes it.
        options: clip_cell_input, empty_row_state ("zeros" or "initial"), deterministic, allow_reduced_precision,
        weight_type ("float16", "bfloat16", "int8", "as_given").
        """
        return finish(self._infer(op, inputs, model, version, fingerprint, outputs, engine, priority, request_id, timeout,
                                  options))

    def session(self, target: str | Operator | None = None, *, version: int | None = None, fingerprint: str | None = None,
                state: Mapping[str, npt.ArrayLike] | None = None, rows: int | None = None,
                outputs: str | Iterable[str] = (), name: str = "", attach: bool = False, must_exist: bool = False,
                checkpoint_every: int = 0, max_in_flight: int = 8,
                idle_timeout: float | None = None, window_operations: int | None = None,
                window_bytes: int | None = None, engine: str = "", state_type: str | None = None, durability: str | None = None,
                timeout: float | None = 60.0, **options: Unpack[Options]) -> Session:
        """Opens a Session: state kept between chunks. Close it, or use it in a `with`.

        target            a model's name (version absent: the highest) or an Operator with its weights; or fingerprint
        state             where to start: arrays by name, all of them (initial_h and initial_c, or as the model's file
                          calls them: h0, c0), or the State of another session. State comes back by the names used here
        rows              parallel sequences. None: those of the state, else 1
        outputs           names wanted of each chunk; none: the operator's default
        name, attach      a name unique on the server; with attach, a live session of that name is gone on with. What is
                          said here of target, rows and state_type must be so of it, and no state given
                          (FAILED_PRECONDITION names what differs); `created` of the Session tells which it was
        must_exist        with attach: never a new one. NOT_FOUND where none of that name is live
        checkpoint_every  ask for the state after so many operations and keep those since, so that the session survives
                          a server that was killed; 0: such a session ends with DATA_LOSS
        max_in_flight     operations without an answer
        idle_timeout      seconds after which the server ends an idle session; None: its default (10 minutes)
        window_operations, window_bytes  replies that the server keeps for repetition; None: enough, and those of
                          256 steps. A chunk whose reply does not fit is refused. What they may take is charged to the
                          session, and no more is sent at once than has its replies there
        state_type        "float16" or "bfloat16": what the server keeps the state in between chunks, rounded once after each;
                          half its memory. None: as it is computed
        durability        "sync" or "interval", of servers with a common store: the session keeps its key, and when its
                          server leaves or is killed another one goes on with it. "sync" writes to the store before each
                          reply, "interval" now and then; the session sends again what is missing
        timeout           seconds that the server may take for a chunk; None: no limit
        options           as of infer
        """
        return finish(self._open_session(
            Session, target, version, fingerprint, state, rows, outputs, name, attach, must_exist, checkpoint_every,
            max_in_flight,
            idle_timeout, window_operations, window_bytes, engine, state_type, durability, timeout, options))

    def sessions(self, *, page_size: int | None = None, timeout: float | None = None) -> Iterator[SessionInfo]:
        """Every session of the caller that the first server holds, fetched page by page (None: the server's size)."""
        token, more = "", True
        while more:
            page, token = finish(self._list_sessions(page_size, token, timeout))
            yield from page
            more = bool(token)

    def load(self, name: str, model: Operator | Sequence[Operator] | bytes | os.PathLike[str],
             weights: Inputs | None = None, *, version: int | None = None, engine: str = "",
             progress: bool | Progress = False, timeout: float | None = None,
             **options: Unpack[Options]) -> ModelInfo:
        """Uploads a model under a name.

        model: an operator with its weights (bound to it, or given here by name); several, layer by layer, as
        convert.torch_lstm gives them; or an ONNX file with all weights inside, as bytes or as a pathlib.Path (of
        torch: torch.onnx.export(module, (x,), path, external_data=False)).
        version: None is one more than the name's highest, or that one where its content is equal; 1 for a new name.
        It lives as long as the server's process. Equal content under an existing name and version is fine; other
        content raises ALREADY_EXISTS. engine and options are the defaults of calls to this model. Returns ModelInfo.
        progress: of a file, which goes in pieces, so max_message_bytes does not bound it: True shows a line on standard
        error if that is a terminal; a function is called with the bytes sent and those of the file, on any thread.
        The server runs one step of the model before its name means it, and refuses one that cannot run.
        """
        return finish(self._load(name, model, weights, version, engine, progress, timeout, options))

    def save(self, name: str, path: str | os.PathLike[str], version: int | None = None, *,
             progress: bool | Progress = False, timeout: float | None = None) -> ModelInfo:
        """Writes the ONNX file of a model (version absent: the highest) to a path, where it appears once it is whole.

        It is the file as it was uploaded, or as it lies in the server's repository folder. A model that was loaded as
        operators has none: FAILED_PRECONDITION. progress: as of load. Returns ModelInfo.
        """
        return finish(self._save(name, path, version, progress, timeout))

    def load_repository(self, name: str, version: int = 1, *, engine: str = "", timeout: float | None = None,
                        **options: Unpack[Options]) -> ModelInfo:
        """Loads NAME/VERSION/model.onnx of the server's repository folder. Returns ModelInfo."""
        return finish(self._load_repository(name, version, engine, timeout, options))

    def unload(self, name: str, version: int | None = None, *, timeout: float | None = None) -> None:
        """Ends new use of a model (version absent: the highest); running calls and open sessions keep it."""
        finish(self._unload(name, version, timeout))

    def get(self, name: str | None = None, version: int | None = None, *, fingerprint: str | None = None,
            timeout: float | None = None) -> ModelInfo:
        """The ModelInfo of a name (and version) or of a fingerprint."""
        return finish(self._get(name, version, fingerprint, timeout))

    def models(self, *, timeout: float | None = None) -> list[ModelInfo]:
        """The ModelInfo of every model, by name and version."""
        return [results.model_info(model) for model in finish(self._list_models(timeout)).models]

    def repository_failures(self, *, timeout: float | None = None) -> list[tuple[str, str]]:
        """(path, reason) of every file of the repository folder that could not be loaded."""
        return [(failure.path, failure.reason) for failure in finish(self._list_models(timeout)).failures]

    def health(self, service: str = "", *, timeout: float | None = None) -> str:
        """ "SERVING" or "NOT_SERVING", of the server as a whole or of one service; an unknown one is NOT_FOUND."""
        return finish(self._check_health(service, timeout))
