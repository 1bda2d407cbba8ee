// SPDX-License-Identifier: Apache-2.0
// Sessions as the slots of a caller: a call is a chunk of its session, on one of a few streams that carry all of them.
// One thread, one completion queue.
//
// Sessions are opened when they are first asked to send, or beforehand; a session that has lived for `life` chunks is
// closed, and another one is opened in its place. Chunks have numbers; those of a session come in a fixed order, so
// that the n-th reply of each session is the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/rnnctl/bench/histogram.h"
#include "client/rnnctl/bench/requests.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

struct SessionSenderOptions {
  std::vector<std::string> addresses;  // at least one; streams go to them in turn
  client::ClientOptions client;
  size_t slots = 1;
  int64_t streams = 1;
  int64_t operations = 1;  // a message, at most
  int64_t life = 0;        // chunks of a session; 0: no end
  bool echo = false;       // replies are bytes; there are no sessions
  std::optional<double> check;
};

class SessionSender : public Sender {
 public:
  // Opens what is not open of the first `count` sessions. Ends early, and well, if interrupted.
  virtual absl::Status Open(size_t count, const std::function<bool()>& interrupted) = 0;
  // Closes all that are open.
  virtual absl::Status CloseAll(const std::function<bool()>& interrupted) = 0;
  // How long opening took, of sessions opened since the last call.
  virtual Histogram TakeOpened() = 0;
};

// Connects first; that it cannot is kCannotConnect. `requests` outlives it.
absl::StatusOr<std::unique_ptr<SessionSender>> MakeSessionSender(const SessionSenderOptions& options,
                                                                 const Requests& requests);

}  // namespace rnnserve::rnnctl::bench
