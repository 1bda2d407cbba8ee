// SPDX-License-Identifier: Apache-2.0
// Reads values of flags; the first error stays.
//
//   FlagReader reader(arguments);
//   reader.Whole("hidden", 1, kMaxSize, entry.hidden);      // stays as it is if the flag is not there
//   reader.Duration("window", absl::Milliseconds(10), stopping.window);
//   if (!reader.status().ok()) return reader.status();
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

class FlagReader {
 public:
  explicit FlagReader(const Arguments& arguments) : arguments_(arguments) {}

  template <typename T>
  void Whole(std::string_view name, int64_t min, int64_t max, T& into) {
    if (const std::optional<int64_t> value = ReadWhole(name, min, max)) into = static_cast<T>(*value);
  }
  template <typename T>
  void Duration(std::string_view name, absl::Duration min, T& into) {
    if (const std::optional<Time> value = ReadDuration(name, min)) into = *value;
  }
  // "10%" or "0.1".
  void Share(std::string_view name, double& into);

  // Neither or one of two flags.
  void Exclude(std::string_view flag, std::string_view by);
  // `flag` without `needed` is refused.
  void Needs(std::string_view flag, std::string_view needed);

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  std::optional<int64_t> ReadWhole(std::string_view name, int64_t min, int64_t max);
  std::optional<Time> ReadDuration(std::string_view name, absl::Duration min);

  const Arguments& arguments_;
  absl::Status status_;
};

absl::Status Excluded(std::string_view flag, std::string_view by);

}  // namespace rnnserve::rnnctl::bench
