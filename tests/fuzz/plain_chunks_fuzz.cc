// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/plain_chunks_fuzz.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "server/api/native/plain_chunks.h"
#include "server/api/native/session_codec.h"

namespace rnnserve {
namespace {

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void CheckSame(const OperationCall& plain, const OperationCall& decoded) {
  Check(plain.session == decoded.session, "another session");
  Check(plain.number == decoded.number, "another number");
  Check(plain.owner_epoch == decoded.owner_epoch, "another owner epoch");
  Check(plain.priority == decoded.priority, "another priority");
  Check(plain.timeout == decoded.timeout, "another timeout");
  const auto *const own = std::get_if<ChunkOp>(&plain.kind), *const other = std::get_if<ChunkOp>(&decoded.kind);
  Check(own != nullptr && other != nullptr, "no chunk");
  Check(own->outputs == other->outputs, "other outputs");
  Check(own->inputs.size() == 1 && other->inputs.size() == 1, "not one input");
  const NamedTensor &x = own->inputs[0], &y = other->inputs[0];
  Check(x.name == y.name && x.tensor.type == y.tensor.type && x.tensor.shape == y.tensor.shape, "another input");
  Check(std::ranges::equal(x.tensor.data, y.tensor.data), "other data");
}

}  // namespace

bool FuzzPlainChunks(std::string_view bytes) {
  const google::protobuf::LogSilencer silent;
  PlainChunks chunks;
  if (!ReadPlainChunks(bytes, chunks)) return false;
  v1::StreamRequest request;
  Check(request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), "the generated classes refuse it");
  Check(request.operations_size() == static_cast<int>(chunks.size()), "another number of operations");
  for (size_t k = 0; k < chunks.size(); ++k) {
    const v1::Operation& operation = request.operations(static_cast<int>(k));
    const absl::StatusOr<OperationCall> decoded = DecodeOperation(operation, {});
    Check(decoded.ok(), "something is wrong with it");
    CheckSame(CallOf(chunks[k], {}), *decoded);
    const OperationHead plain = HeadOf(chunks[k]), other = HeadOf(operation);
    Check(plain.request_id == other.request_id && plain.session == other.session && plain.number == other.number &&
              plain.kind == other.kind,
          "replies would say something else of it");
  }
  return true;
}

}  // namespace rnnserve
