# SPDX-License-Identifier: Apache-2.0
"""A server in this process that answers Infer by rnnserve.formulas, and forgets weights or refuses calls when told to."""

import concurrent.futures
import hashlib

import grpc
import numpy as np
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from rnnserve import Operator, formulas, tensors
from rnnserve.operators import operator_from_wire, options_from_wire
from rnnserve.v1 import (models_pb2, models_pb2_grpc, recurrent_pb2, recurrent_pb2_grpc, sessions_pb2,
                         sessions_pb2_grpc)


class FakeServer(recurrent_pb2_grpc.RecurrentServicer, models_pb2_grpc.ModelsServicer,
                 sessions_pb2_grpc.SessionsServicer):
    """Keeps the requests it saw in `requests`; `evict()` drops all weights; listens on `address`, whose port may be given.

    refusals   what the next calls are refused with, the first one first: (code, seconds of RetryInfo or None, and
               perhaps a reason)
    metadata   of every Infer, Open and List, as a dict
    sessions   how many List tells of
    opens      (request, x-session-route) of every Sessions.Open; those that are not refused open a session that does
               nothing
    files      the bytes of uploads, by name; downloads give these, without the last `cut_short`
    on_open    called with each of them before it is answered"""

    def __init__(self, port=0):
        self.requests = []
        self.metadata = []
        self.sessions = 0
        self.refusals = []
        self.opens = []
        self.on_open = lambda request: None
        self.files = {}
        self.cut_short = 0
        self._held = {}
        self._names = {}
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        recurrent_pb2_grpc.add_RecurrentServicer_to_server(self, self._server)
        models_pb2_grpc.add_ModelsServicer_to_server(self, self._server)
        sessions_pb2_grpc.add_SessionsServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.address = f"127.0.0.1:{self.port}"
        self._server.start()

    def stop(self):
        self._server.stop(None).wait()

    def evict(self):
        self._held.clear()

    def Infer(self, request, context):
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self._refuse(context)
        inputs = {tensor.name: tensors.decode(tensor) for tensor in request.inputs}
        kind = request.WhichOneof("target")
        if kind == "operator":
            weights = {name: inputs.pop(name) for name in ("W", "R", "B", "P") if name in inputs}
            fingerprint = self._hold(request.operator, weights)
        else:
            fingerprint = request.fingerprint if kind == "fingerprint" else self._names.get(request.model.name, "")
        if fingerprint not in self._held:
            reason = "FINGERPRINT_EVICTED" if kind == "fingerprint" else "MODEL_UNKNOWN"
            context.set_trailing_metadata([("grpc-status-details-bin", _not_found(reason).SerializeToString())])
            context.abort(grpc.StatusCode.NOT_FOUND, "not held")
        wire, weights = self._held[fingerprint]
        op = operator_from_wire(wire)
        op = Operator(op.op_type, version=op.version, opset=op.opset, attributes=op.attributes, weights=weights,
                      options=options_from_wire(request.options))
        outputs = formulas.run(op, inputs)
        reply = recurrent_pb2.InferResponse(request_id=request.request_id, engine="formulas", fingerprint=fingerprint,
                                            largest_batch=7, warnings=["a remark"])
        reply.queue_time.FromNanoseconds(1_500_000_000)
        reply.outputs.extend(tensors.encode(name, outputs[name].astype(np.float32))
                             for name in request.outputs or outputs)
        return reply

    def Load(self, request, context):
        self.requests.append(request)
        self._refuse(context)
        if not request.HasField("inline"):
            return models_pb2.LoadResponse(model=models_pb2.ModelInfo(name=request.name, source="upload"))
        weights = {tensor.name: tensors.decode(tensor) for tensor in request.inline.weights}
        fingerprint = self._names[request.name] = self._hold(request.inline.operator, weights)
        model = models_pb2.ModelInfo(name=request.name, version=request.version, fingerprint=fingerprint,
                                     operator=request.inline.operator, options=request.options, source="upload")
        model.inputs.add(name="X", data_type=1, shape=["T", "N", "3"])
        return models_pb2.LoadResponse(model=model)

    def Upload(self, messages, context):
        first = next(messages)
        self.requests.append(first.begin)
        self._refuse(context)
        self.files[first.begin.name] = b"".join(message.chunk for message in messages)
        if len(self.files[first.begin.name]) != first.begin.file_bytes:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not whole")
        return models_pb2.LoadResponse(model=models_pb2.ModelInfo(name=first.begin.name, source="upload"))

    def Download(self, request, context):
        self._refuse(context)
        content = self.files[request.model.name]
        model = models_pb2.ModelInfo(name=request.model.name, version=request.model.version, source="upload")
        yield models_pb2.DownloadResponse(begin={"model": model, "file_bytes": len(content)})
        for at in range(0, len(content) - self.cut_short, 1000):
            yield models_pb2.DownloadResponse(chunk=content[at:at + 1000])

    def List(self, request, context):
        """Of Models and of Sessions: two services, one name."""
        self.metadata.append(dict(context.invocation_metadata()))
        if isinstance(request, models_pb2.ListModelsRequest):
            return models_pb2.ListModelsResponse()
        first, size = int(request.page_token or 0), request.page_size or 100
        page = range(first, min(first + size, self.sessions))
        return sessions_pb2.ListSessionsResponse(
            sessions=[sessions_pb2.SessionInfo(session=f"key {k}", idle={"nanos": 500_000_000}) for k in page],
            next_page_token=str(page.stop) if page.stop < self.sessions else "")

    def Open(self, request, context):
        self.metadata.append(dict(context.invocation_metadata()))
        self.opens.append((request, self.metadata[-1]["x-session-route"]))
        self.on_open(request)
        self._refuse(context)
        return sessions_pb2.OpenResponse(session="key", fingerprint="0" * 64, max_in_flight=request.max_in_flight)

    def Stream(self, requests, context):
        context.send_initial_metadata(())
        yield from (sessions_pb2.StreamResponse() for _ in requests)

    def _refuse(self, context):
        if not self.refusals:
            return
        code, seconds, *reason = self.refusals.pop(0)
        status = status_pb2.Status(code=code.value[0])
        if seconds is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(round(seconds * 1e9))
            status.details.add().Pack(retry)
        if reason:
            status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason[0], domain="rnnserve"))
        if status.details:
            context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(code, "refused by the test")

    def _hold(self, wire, weights):
        text = wire.SerializeToString(deterministic=True)
        fingerprint = hashlib.sha256(text + b"".join(weights[key].tobytes() for key in sorted(weights))).hexdigest()
        self._held[fingerprint] = (wire, weights)
        return fingerprint


def _not_found(reason):
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="rnnserve"))
    return status_pb2.Status(code=grpc.StatusCode.NOT_FOUND.value[0], message="not held", details=[detail])
