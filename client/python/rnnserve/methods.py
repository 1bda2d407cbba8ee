# SPDX-License-Identifier: Apache-2.0
"""The calls of the server's API: their paths, and the messages that go up and come down."""

import dataclasses
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from rnnserve.v1 import models_pb2, recurrent_pb2, sessions_pb2

RequestT = TypeVar("RequestT", bound=Message)
ReplyT = TypeVar("ReplyT", bound=Message)


@dataclasses.dataclass(frozen=True)
class Method(Generic[RequestT, ReplyT]):
    path: str
    request: type[RequestT]
    reply: type[ReplyT]

    def stub(self, make: Any) -> Any:
        """What make, a channel's unary_unary or stream_stream, gives for this call."""
        return make(self.path, request_serializer=self.request.SerializeToString,
                    response_deserializer=self.reply.FromString)


INFER = Method("/rnnserve.v1.Recurrent/Infer", recurrent_pb2.InferRequest, recurrent_pb2.InferResponse)
STREAM = Method("/rnnserve.v1.Recurrent/Stream", sessions_pb2.StreamRequest, sessions_pb2.StreamResponse)
LOAD = Method("/rnnserve.v1.Models/Load", models_pb2.LoadRequest, models_pb2.LoadResponse)
UPLOAD = Method("/rnnserve.v1.Models/Upload", models_pb2.UploadRequest, models_pb2.LoadResponse)
DOWNLOAD = Method("/rnnserve.v1.Models/Download", models_pb2.DownloadRequest, models_pb2.DownloadResponse)
UNLOAD = Method("/rnnserve.v1.Models/Unload", models_pb2.UnloadRequest, models_pb2.UnloadResponse)
GET_MODEL = Method("/rnnserve.v1.Models/Get", models_pb2.GetModelRequest, models_pb2.GetModelResponse)
LIST_MODELS = Method("/rnnserve.v1.Models/List", models_pb2.ListModelsRequest, models_pb2.ListModelsResponse)
OPEN = Method("/rnnserve.v1.Sessions/Open", sessions_pb2.OpenRequest, sessions_pb2.OpenResponse)
GET_STATE = Method("/rnnserve.v1.Sessions/GetState", sessions_pb2.GetStateRequest, sessions_pb2.GetStateResponse)
LIST_SESSIONS = Method("/rnnserve.v1.Sessions/List", sessions_pb2.ListSessionsRequest, sessions_pb2.ListSessionsResponse)
CHECK_HEALTH = Method("/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
