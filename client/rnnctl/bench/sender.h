// SPDX-License-Identifier: Apache-2.0
// The seam between what a load test measures and how calls travel. One thread uses it. Tests put a fake clock behind
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rnnserve::rnnctl::bench {

// Since some fixed moment.
using Time = std::chrono::nanoseconds;

inline constexpr Time kLookUp = std::chrono::milliseconds(100);  // how long Ctrl-C may go unnoticed

// An answer against the first one to the same request.
enum class Match { kUnchecked, kSame, kClose, kWrong };

struct Answer {
  size_t slot = 0;
  int code = 0;         // as in grpc::StatusCode
  std::string message;  // of an error
  // As the server told; 0 if it did not.
  std::chrono::nanoseconds queue{0};
  std::chrono::nanoseconds compute{0};
  int64_t largest_batch = 0;
  bool has_server_times = false;
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t steps = 0;  // of a session's chunk
  Match match = Match::kUnchecked;
};

class Sender {
 public:
  virtual ~Sender() = default;

  virtual Time Now() = 0;
  // Of this whole process, all threads, user and system.
  virtual std::chrono::nanoseconds CpuTime() = 0;

  // Starts the call of a prepared request. `slot` is free: below the caller's number of slots, its last call answered.
  // A timeout counts from `due`, when the call should have been sent.
  virtual void Send(size_t slot, size_t request, Time due) = 0;
  // Waits for the next answer until `until`; false if none came. May return false somewhat earlier. With `precise` it
  // returns within tens of microseconds of `until`, otherwise within milliseconds.
  virtual bool Wait(Time until, bool precise, Answer& answer) = 0;
  // Does nothing until then, not even look at answers.
  virtual void Sleep(Time until) = 0;
};

}  // namespace rnnserve::rnnctl::bench
