// SPDX-License-Identifier: Apache-2.0
// How far a file of a model has gone or come, on one line of the terminal.
//
//   Transfer transfer("sent", streams.err);
//   client.Load(request, [&](int64_t bytes, int64_t of) { transfer.Show(bytes, of); });
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "client/rnnctl/progress_line.h"

namespace rnnserve::rnnctl {

// "sent 12.5 of 200.0 MiB, 6 %, 41.3 MiB/s".
std::string TransferText(const std::string& verb, int64_t bytes, int64_t of, std::chrono::nanoseconds time);

class Transfer {
 public:
  Transfer(std::string verb, std::ostream& err) : verb_(std::move(verb)), line_(err) {}

  // At most ten times a second, and at the end.
  void Show(int64_t bytes, int64_t of);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string verb_;
  ProgressLine line_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point shown_ = began_;
};

}  // namespace rnnserve::rnnctl
