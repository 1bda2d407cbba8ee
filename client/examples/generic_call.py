# SPDX-License-Identifier: Apache-2.0
"""Calls Infer knowing only the server's address: python generic_call.py HOST:PORT (reflection; input as JSON)."""
import json, sys  # noqa: E401
import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

REQUEST = json.loads("""{"operator": {"opType": "RNN", "version": 14}, "inputs": [
  {"name": "X", "dataType": "FLOAT", "shape": [3, 1, 1], "floatData": [1, 0, 0]},
  {"name": "W", "dataType": "FLOAT", "shape": [1, 1, 1], "floatData": [1]},
  {"name": "R", "dataType": "FLOAT", "shape": [1, 1, 1], "floatData": [0.5]}]}""")

channel = grpc.insecure_channel(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__))
pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
infer = pool.FindServiceByName("rnnserve.v1.Recurrent").FindMethodByName("Infer")
request, reply = (message_factory.GetMessageClass(kind) for kind in (infer.input_type, infer.output_type))
call = channel.unary_unary("/rnnserve.v1.Recurrent/Infer", request.SerializeToString, reply.FromString)
print(json_format.MessageToJson(call(json_format.ParseDict(REQUEST, request()))))
