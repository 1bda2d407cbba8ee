// SPDX-License-Identifier: Apache-2.0
// The messages of Recurrent.Stream as a load test writes and reads them: what stays the same is serialised once, and of
// replies only what is reported is looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/session_types.h"
#include "client/cpp/types.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

enum class OperationKind : char { kOpen = 'o', kChunk = 'c', kClose = 'x' };

// What the reply to an operation is known by.
struct OperationId {
  OperationKind kind;
  size_t slot;
};

// The part of an Operation that says what to do, for AppendOperation.
std::string ChunkBody(const std::vector<client::Tensor>& inputs);
std::string CloseBody();
// Of a model or an operator that the server knows. `kept_replies`, `kept_bytes`: absent for the server's default.
std::string OpenBody(const client::Target& target, int64_t rows, const client::InferOptions& options,
                     std::optional<int64_t> kept_replies, std::optional<int64_t> kept_bytes,
                     client::Durability durability);

// One operation of a StreamRequest. `session` is empty for Open, `number` 0 for none.
void AppendOperation(OperationId id, std::string_view session, uint64_t number, std::string_view body,
                     std::string& message);

struct OperationRead {
  OperationId id;
  Answer answer;             // code, message, queue and compute time
  std::string_view session;  // its key
  std::string_view reply;    // the serialised OperationReply
};

// Each reply of a serialised StreamResponse. False: it is none; earlier replies may have been told.
bool ReadReplies(std::string_view message, const std::function<void(const OperationRead&)>& take);

}  // namespace rnnserve::rnnctl::bench
