// SPDX-License-Identifier: Apache-2.0
// Flags of one sub-command: --name value, --name=value, switches, `--` before positional arguments that begin with a
// dash. A wrong flag is answered with the nearest right one. (absl::flags are global to a program and know no
// sub-commands.)
//
//   constexpr Flag kFlags[] = {{.name = "server", .value = "HOST:PORT", .help = "..."}};
//   auto arguments = Arguments::Parse({"--server=h:1", "x.json"}, kFlags);
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rnnserve::rnnctl {

struct Flag {
  std::string_view name;
  std::string_view value;  // what the value is called in the help; empty: a switch without one
  std::string_view help;
  bool repeated = false;
  char short_name = 0;  // -o for --out; 0: none
};

// The caller's mistake (exit code 2), as opposed to a refusal by the server.
absl::Status UsageError(std::string_view message);
bool IsUsageError(const absl::Status& status);

class Arguments {
 public:
  // Every flag set understands --help and -h.
  static absl::StatusOr<Arguments> Parse(std::span<const std::string> words, std::span<const Flag> flags);

  bool Has(std::string_view name) const { return values_.contains(name); }
  std::optional<std::string> Get(std::string_view name) const;
  std::vector<std::string> All(std::string_view name) const;
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positional_;
};

}  // namespace rnnserve::rnnctl
