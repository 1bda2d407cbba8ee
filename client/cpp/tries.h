// SPDX-License-Identifier: Apache-2.0
// Retries of a call that no server has taken: on which server, when, and for how long. No gRPC, no clock; inside the
// library only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/backoff.h"

namespace rnnserve::client {

using TryTime = std::chrono::steady_clock::time_point;

// Maximum time of retries where no server has ever answered: a wrong address is more likely than a restart.
inline constexpr std::chrono::milliseconds kFirstContactTime{5000};
// Between two tries at a server that named no time itself.
inline constexpr std::chrono::milliseconds kLongestPause{1000};

// Whether the server itself refused the call, as a draining server does: it began nothing.
bool IsRefusal(const absl::Status& status);
// Whether the engine that the call names is out of service on that server, until it is started again.
bool LacksEngine(const absl::Status& status);
// Whether a server answered: with success, or with what only a server says.
bool IsFromServer(const absl::Status& status);
// `status` of the last of so many tries, `before` what the one before it ended with.
absl::Status WithTries(const absl::Status& status, int tries, std::chrono::steady_clock::duration time,
                       const absl::Status& before = {});

// Those of one call. Each server is asked at once, and again when it said, else after pauses that grow to a second. One
// that lacks the engine is not asked again.
class Tries {
 public:
  Tries(const std::vector<size_t>& order, TryTime began, uint32_t seed);

  // The next one to ask.
  size_t server() const { return server_; }
  // Whether every server has failed.
  bool HasAskedAll() const;
  // It took nothing; when to ask `server`, from now on perhaps another one. TryTime::max(): none is left.
  TryTime Failed(const absl::Status& status, TryTime now);
  // Of a call that ends so: an error tells how often it was tried.
  absl::Status FinalStatus(const absl::Status& status, TryTime now) const;

 private:
  struct Server {
    size_t index = 0;
    TryTime due;
    int failed = 0;
  };

  TryTime began_;
  std::minstd_rand random_;
  Backoff backoff_;
  std::vector<Server> servers_;
  size_t server_ = 0;
  int failed_ = 0;
  absl::Status last_;
};

}  // namespace rnnserve::client
