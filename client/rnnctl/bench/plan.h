// SPDX-License-Identifier: Apache-2.0
// Flags of `rnnctl bench` to what is to be measured. No server is asked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/types.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/bench/mix.h"
#include "client/rnnctl/bench/run.h"
#include "client/rnnctl/bench/sessions/session_plan.h"

namespace rnnserve::rnnctl::bench {

enum class Format { kTable, kJson, kCsv };

struct Plan {
  std::vector<MixEntry> mix;
  std::vector<Load> loads;  // one level each
  Stopping stopping;
  client::InferOptions options;
  std::optional<std::string> cast;  // floating type of random operators
  bool always_inline = false;
  bool echo = false;
  // Compare answers: within this, relative to 1 or the value; 0: bit for bit.
  std::optional<double> check;
  Format format = Format::kTable;
  bool histogram = false;
  uint64_t seed = 1;
  std::optional<SessionPlan> sessions;
};

absl::StatusOr<Plan> PlanFrom(const Arguments& arguments);

// "64", "1,8,64", "1:64" (doubling: 1, 2, 4, ... 64), "4:16:4" (in steps of 4). `what` is named in errors.
absl::StatusOr<std::vector<double>> ParseLevels(std::string_view text, std::string_view what);

}  // namespace rnnserve::rnnctl::bench
