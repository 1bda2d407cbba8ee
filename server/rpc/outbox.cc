// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/outbox.h"

#include <grpc/slice.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rnnserve {
namespace {

// Blocks grow while one fills after the other: as many bytes are unused at most as lie in them, or a small block.
constexpr size_t kLeastBlock = 4 << 10;
constexpr size_t kMostBlock = 64 << 10;

// The first `size` bytes.
grpc::Slice Trimmed(const grpc::Slice& slice, size_t size) {
  return {grpc_slice_sub_no_ref(slice.c_slice(), 0, size), grpc::Slice::STEAL_REF};
}

}  // namespace

void Outbox::Add(grpc::Slice bytes, std::optional<ByteBudget::Share> held) {
  const size_t size = bytes.size();
  Part& part = parts_.emplace_back(Part{std::move(bytes), size});
  if (held) part.held.push_back(*std::move(held));
}

void Outbox::Copy(std::span<const uint8_t> bytes, std::optional<ByteBudget::Share> held) {
  const size_t room = parts_.empty() ? 0 : parts_.back().slice.size() - parts_.back().size;
  if (room < bytes.size()) {
    const size_t before = parts_.empty() || !parts_.back().is_block ? 0 : parts_.back().size;
    const size_t size = std::max(bytes.size(), std::clamp(2 * before, kLeastBlock, kMostBlock));
    parts_.emplace_back(Part{grpc::Slice(size), 0, /*is_block=*/true});
  }
  Part& part = parts_.back();
  if (held && (part.held.empty() || !part.held.back().Join(*held))) part.held.push_back(*std::move(held));
  std::memcpy(const_cast<uint8_t*>(part.slice.begin()) + part.size, bytes.data(), bytes.size());  // ours alone
  part.size += bytes.size();
}

Outbox::Message Outbox::Take(int64_t most) {
  Message message;
  absl::InlinedVector<grpc::Slice, 8> slices;
  for (Part& part : parts_) {
    const auto bytes = static_cast<int64_t>(part.size);
    if (!slices.empty() && message.size + bytes > most) break;
    message.size += bytes;
    slices.push_back(part.size == part.slice.size() ? std::move(part.slice) : Trimmed(part.slice, part.size));
    for (ByteBudget::Share& share : part.held) message.held.push_back(std::move(share));
  }
  parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(slices.size()));
  grpc::ByteBuffer joined(slices.data(), slices.size());
  message.bytes.Swap(&joined);
  return message;
}

}  // namespace rnnserve
