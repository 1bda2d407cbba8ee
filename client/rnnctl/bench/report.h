// SPDX-License-Identifier: Apache-2.0
// What was measured, for people (tables), for scripts (JSON) and for spreadsheets (CSV, a row for each level). JSON and
// CSV have the same figures under the same names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/rnnctl/bench/run.h"

namespace rnnserve::rnnctl::bench {

// What --find found.
struct HeldSessions {
  int64_t sessions = 0;  // 0: not even one
  Time target{0};        // the 99th percentile asked for
};

struct Report {
  std::string what;  // was sent, in one line
  std::vector<Level> levels;
  std::optional<HeldSessions> held = {};
};

std::string ShowReport(const Report& report, bool histogram);
std::string ReportJson(const Report& report);
std::string ReportCsv(const Report& report);

// One line on how a window went, for the progress line.
std::string ShowWindow(const Load& load, int64_t window, const Tally& tally);

}  // namespace rnnserve::rnnctl::bench
