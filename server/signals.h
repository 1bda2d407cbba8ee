// SPDX-License-Identifier: Apache-2.0
// SIGTERM and SIGINT, taken by whoever waits for them.
#pragma once

#include <signal.h>

#include "absl/time/time.h"

namespace rnnserve {

// Blocked in this thread and all that it starts, so that they wait to be taken. Before any thread exists. SIGHUP is
// ignored from then on: many send it to have files read again, which happens by itself here.
sigset_t BlockLeaveSignals();

// Takes one of `signals`; 0 if none came in that time.
int AwaitSignal(const sigset_t& signals, absl::Duration longest);

}  // namespace rnnserve
