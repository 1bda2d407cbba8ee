// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT, taken by the thread that waits for them.
#pragma once

#include <signal.h>

#include <thread>

#include "absl/time/time.h"

namespace rnnserve {

// Blocked in this thread and all that it starts, so that they wait to be taken. Before any thread exists. SIGHUP is
// ignored from then on: many send it to have files read again, which happens by itself here.
sigset_t BlockLeaveSignals();

// Takes one of `signals`; 0 if none came in that time.
int AwaitSignal(const sigset_t& signals, absl::Duration longest);

// While it exists, one of `signals` ends the process at once, with 0: for the start, which may read gigabytes of models
// and has nothing yet that would have to be finished. A signal that comes as it goes is left for AwaitSignal.
class LeaveAtOnce {
 public:
  explicit LeaveAtOnce(const sigset_t& signals);
  ~LeaveAtOnce();
  LeaveAtOnce(const LeaveAtOnce&) = delete;
  LeaveAtOnce& operator=(const LeaveAtOnce&) = delete;

 private:
  const int signal_fd_;
  const int done_fd_;
  std::thread thread_;
};

}  // namespace rnnserve
