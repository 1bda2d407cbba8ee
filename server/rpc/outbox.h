// SPDX-License-Identifier: Apache-2.0
// The replies of a stream that wait until the wire is free. Copied ones lie one behind the other in blocks, each of
// which leaves as one slice: a slice for each small reply costs gRPC and the allocator more than the copy.
//
//   outbox.Copy(bytes, std::move(share));
//   Outbox::Message next = outbox.Take(1 << 20);      // parts that leave together
//
// Not thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "server/admission/byte_budget.h"

namespace rnnserve {

class Outbox {
 public:
  using Shares = absl::InlinedVector<ByteBudget::Share, 1>;
  // What leaves together; `held` is released once it has left.
  struct Message {
    grpc::ByteBuffer bytes;
    int64_t size = 0;
    Shares held;
  };

  void Add(grpc::Slice bytes, std::optional<ByteBudget::Share> held);
  // Joins parts: for methods whose messages may follow one another.
  void Copy(std::span<const uint8_t> bytes, std::optional<ByteBudget::Share> held);

  bool empty() const { return parts_.empty(); }
  // The first part, and those behind it while all of them have at most `most` bytes.
  Message Take(int64_t most);

 private:
  struct Part {
    grpc::Slice slice;
    size_t size;  // of it; a block may have room behind
    bool is_block = false;
    Shares held = {};
  };

  std::vector<Part> parts_;
};

}  // namespace rnnserve
