// SPDX-License-Identifier: Apache-2.0
// A request to the store on its way: what it asks of Redis, and what the answer means.
//
// A record is one string of Redis: the fence (8 bytes since when, 16 bytes owner), 8 bytes serial, and the record. Two
// scripts (store_request.cc) compare the fence and act, in one step. The serial counts a process's writes: a write that
// was given up, whose bytes still lie in the socket of a connection that hung, must not overwrite a later one when the
// Redis wakes up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/contract/session_store.h"
#include "server/store/event_loop.h"
#include "server/store/redis_protocol.h"
#include "server/store/store_address.h"
#include "server/telemetry/store_metrics.h"

namespace rnnserve {

struct StoreRequest {
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;

  StoreOperation operation = StoreOperation::kWrite;
  std::string key = {};
  std::vector<std::string> arguments = {};  // of the script
  absl::Time start = {};
  absl::Time deadline = {};
  Done done = {};       // null: it was called
  int64_t charged = 0;  // bytes, against the bound of the queue

  // Of the loop's thread.
  EventLoop::Timer timer = {};
  bool whole_script = false;  // the server does not know it by its hash
  // Where to, instead of the slot's node; `asking`: of a slot that is on its way there.
  std::optional<StoreHost> redirect = {};
  bool asking = false;
  int redirects = 0;
  absl::Status last_error = absl::OkStatus();

  size_t bytes() const;
};

StoreRequest WriteOf(const SessionStore::WriteRequest& request, uint64_t serial);
StoreRequest TakeOf(const SessionId& id, const StoreFence& fence);
StoreRequest ReadOf(const SessionId& id);

// EVALSHA or EVAL with everything; the words point into the request.
std::vector<std::string_view> WordsOf(const StoreRequest& request);
// What a reply that is no error says. Of a write, OK: kWrittenAnew or nothing; else the string that Redis has.
absl::StatusOr<std::string> MeaningOf(const StoreRequest& request, const redisReply& reply);
inline constexpr std::string_view kWrittenAnew = "ANEW";
// What is too short to be a record is returned as its bytes, which no codec takes for one.
StoredRecord ParseStored(std::string value);

}  // namespace rnnserve
