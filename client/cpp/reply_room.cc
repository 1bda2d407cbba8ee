// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/reply_room.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"

namespace rnnserve::client {
namespace {

// What the server counts besides tensors (docs/sessions.md).
constexpr int64_t kFixedBytes = 256;
constexpr size_t kMostOutputLists = 64;

// The server counts whole blocks of its allocator: up to a fourth more.
constexpr int64_t Block(int64_t bytes) { return bytes + bytes / 4 + 16; }

std::string OutputsOf(const v1::Chunk& chunk) {
  return chunk.override_outputs() ? absl::StrJoin(chunk.outputs(), "\n") : "\n";
}

// Steps times rows of X, or of a whole model's first input, whichever comes first.
double StepsOf(const v1::Chunk& chunk) {
  for (const v1::Tensor& tensor : chunk.inputs()) {
    if (tensor.name() == "sequence_lens" || tensor.name() == "sequence_lengths") continue;
    const int axes = tensor.shape_size() > 2 ? tensor.shape_size() - 1 : tensor.shape_size();
    double steps = 1;
    for (int axis = 0; axis < axes; ++axis) steps *= static_cast<double>(tensor.shape(axis));
    return steps;
  }
  return 0;
}

// Of a stack's layers with a number: Y_h.0.
bool IsFinalState(const std::string& name) {
  const std::string base = name.substr(0, name.find('.'));
  return base == "Y_h" || base == "Y_c" || base == "Ho" || base == "Co";
}

}  // namespace

std::optional<int64_t> ReplyRoom::Expect(const v1::Operation& operation) const {
  if (operation.has_close() && operation.close().return_state()) return std::nullopt;
  if (!operation.has_chunk()) return kFixedBytes;
  const auto known = sizes_.find(OutputsOf(operation.chunk()));
  if (known == sizes_.end()) return std::nullopt;
  const Size& size = known->second;
  const double steps = StepsOf(operation.chunk());
  const double grown = std::ceil(size.per_step * steps + std::max(size.either, size.either * steps / size.steps));
  if (!(grown < 1e15)) return std::nullopt;
  return size.fixed + Block(static_cast<int64_t>(grown));
}

bool ReplyRoom::Fits(std::optional<int64_t> expected, int64_t others, bool all_known) const {
  if (window_bytes_ == 0) return true;
  return expected && all_known && *expected <= window_bytes_ - others;
}

void ReplyRoom::Learn(const v1::Operation& operation, const v1::OperationReply& reply) {
  if (!operation.has_chunk()) return;
  const double steps = StepsOf(operation.chunk());
  Size size = {.fixed = kFixedBytes, .steps = std::max(steps, 1.0)};
  for (const v1::Tensor& output : reply.outputs()) {
    const auto bytes = static_cast<int64_t>(output.raw().size());
    if (IsFinalState(output.name())) {
      size.fixed += Block(bytes);
    } else if (!(steps > 0)) {
      return;  // tells nothing
    } else if (output.name() == "Y") {
      size.per_step = static_cast<double>(bytes) / steps;
    } else {
      size.either += static_cast<double>(Block(bytes));
    }
  }
  if (sizes_.size() >= kMostOutputLists) sizes_.clear();
  sizes_[OutputsOf(operation.chunk())] = size;
}

}  // namespace rnnserve::client
