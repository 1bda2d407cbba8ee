// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/tries.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/field_error.h"
#include "client/cpp/status.h"

namespace rnnserve::client {

using std::chrono::milliseconds;

bool IsRefusal(const absl::Status& status) {
  return absl::IsUnavailable(status) && (ReasonOf(status) == "DRAINING" || RetryDelayOf(status).has_value());
}

bool LacksEngine(const absl::Status& status) {
  return absl::IsUnavailable(status) && ReasonOf(status) == "ENGINE_OUT_OF_SERVICE";
}

bool IsFromServer(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return IsRefusal(status) || LacksEngine(status);
    default:
      return true;
  }
}

absl::Status WithTries(const absl::Status& status, int tries, std::chrono::steady_clock::duration time,
                       const absl::Status& before) {
  if (status.ok() || tries < 2) return status;
  std::string text = absl::StrFormat("%s (tried %d times in %.1f s", status.message(), tries,
                                     std::chrono::duration<double>(time).count());
  if (!before.ok()) {
    absl::StrAppend(&text, "; before that ", absl::StatusCodeToString(before.code()), ": ", before.message());
  }
  absl::Status told(status.code(), absl::StrCat(text, ")"));
  status.ForEachPayload([&](auto url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

Tries::Tries(const std::vector<size_t>& order, TryTime began, uint32_t seed)
    : began_(began), random_(seed), backoff_(seed, kLongestPause) {
  for (const size_t index : order) servers_.push_back({index, began, 0});
  server_ = order.front();
}

bool Tries::HasAskedAll() const {
  return std::all_of(servers_.begin(), servers_.end(), [](const Server& server) { return server.failed > 0; });
}

TryTime Tries::Failed(const absl::Status& status, TryTime now) {
  last_ = status;
  ++failed_;
  for (Server& server : servers_) {
    if (server.index != server_) continue;
    ++server.failed;
    if (LacksEngine(status)) {
      server.due = TryTime::max();
      continue;
    }
    const auto told = RetryDelayOf(status);
    // Spread, so that clients with the same retry delay do not retry at once.
    server.due = now + (told ? *told * std::uniform_int_distribution<int64_t>(100, 120)(random_) / 100
                             : backoff_.After(server.failed));
  }
  const auto next = std::min_element(servers_.begin(), servers_.end(),
                                     [](const Server& a, const Server& b) { return a.due < b.due; });
  server_ = next->index;
  return std::max(next->due, now);
}

absl::Status Tries::FinalStatus(const absl::Status& status, TryTime now) const {
  if (absl::IsUnavailable(status)) return WithTries(status, failed_, now - began_);
  return WithTries(status, failed_ + 1, now - began_, last_);
}

}  // namespace rnnserve::client
