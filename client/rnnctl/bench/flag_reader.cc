// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/flag_reader.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "client/rnnctl/call.h"

namespace rnnserve::rnnctl::bench {

absl::Status Excluded(std::string_view flag, std::string_view by) {
  return UsageError(absl::StrCat("--", View(flag), " and --", View(by), " exclude each other"));
}

std::optional<int64_t> FlagReader::ReadWhole(std::string_view name, int64_t min, int64_t max) {
  const absl::StatusOr<std::optional<int64_t>> value = IntFlag(arguments_, name, min, max);
  if (value.ok()) return *value;
  Fail(value.status());
  return std::nullopt;
}

std::optional<Time> FlagReader::ReadDuration(std::string_view name, absl::Duration min) {
  const std::optional<std::string> text = arguments_.Get(name);
  if (!text) return std::nullopt;
  absl::Duration value;
  if (absl::ParseDuration(*text, &value) && value >= min && value <= absl::Hours(24)) {
    return absl::ToChronoNanoseconds(value);
  }
  Fail(UsageError(absl::StrCat("--", View(name), "=", *text, ": expected a time from ", absl::FormatDuration(min),
                               " to 24h with its unit, such as 500ms or 10s")));
  return std::nullopt;
}

void FlagReader::Share(std::string_view name, double& into) {
  const std::optional<std::string> text = arguments_.Get(name);
  if (!text) return;
  const bool percent = text->ends_with('%');
  double value = 0;
  if (!absl::SimpleAtod(percent ? text->substr(0, text->size() - 1) : *text, &value) || !(value > 0) ||
      !(value / (percent ? 100 : 1) <= 1)) {
    return Fail(UsageError(absl::StrCat("--", View(name), "=", *text, ": expected a share such as 10% or 0.1")));
  }
  into = value / (percent ? 100 : 1);
}

void FlagReader::Exclude(std::string_view flag, std::string_view by) {
  if (arguments_.Has(flag) && arguments_.Has(by)) Fail(Excluded(flag, by));
}

void FlagReader::Needs(std::string_view flag, std::string_view needed) {
  if (!arguments_.Has(flag) || arguments_.Has(needed)) return;
  Fail(UsageError(absl::StrCat("--", View(flag), " belongs to --", View(needed), ", which is not given")));
}

}  // namespace rnnserve::rnnctl::bench
