// SPDX-License-Identifier: Apache-2.0
// Carries out a plan: connects, prepares what is sent, runs level after level.
#pragma once

#include "absl/status/statusor.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/bench/plan.h"
#include "client/rnnctl/bench/report.h"
#include "client/rnnctl/command.h"

namespace rnnserve::rnnctl::bench {

// What has been measured until Ctrl-C. A progress line goes to a terminal.
absl::StatusOr<Report> Measure(const Arguments& arguments, Plan plan, Streams& streams);

}  // namespace rnnserve::rnnctl::bench
