// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT, taken by the thread that waits for them.
#pragma once

#include <signal.h>

#include <thread>

#include "absl/time/time.h"

namespace rnnserve {

// Blocked in this thread and all that it starts, so that they wait to be taken. Before any thread exists. SIGHUP is
// ignored from then on: it often means to reload files, which the server does by itself.
sigset_t BlockStopSignals();

// Takes one of `signals`; 0 if none came in that time.
int AwaitSignal(const sigset_t& signals, absl::Duration longest);

// While it exists, one of `signals` ends the process at once, with 0: for the start, which may read gigabytes of models
// and has no calls to finish yet. AwaitSignal gets a signal that comes during its destruction.
class ExitOnSignal {
 public:
  explicit ExitOnSignal(const sigset_t& signals);
  ~ExitOnSignal();
  ExitOnSignal(const ExitOnSignal&) = delete;
  ExitOnSignal& operator=(const ExitOnSignal&) = delete;

 private:
  const int signal_fd_;
  const int done_fd_;
  std::thread thread_;
};

}  // namespace rnnserve
