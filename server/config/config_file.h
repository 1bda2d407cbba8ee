// SPDX-License-Identifier: Apache-2.0
// The file of --config: a text of rnnserve.config.Config (config.proto).
//
//   absl::StatusOr<std::vector<FileSetting>> settings = ReadConfigFile("/etc/rnnserve.textproto");
//   // {"max_calls", "4096", 3}, {"drain_timeout", "30s", 4}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rnnserve {

struct FileSetting {
  std::string name;
  std::string value;  // as the flag of this name takes it
  int line = 0;       // from 1; of a list the first entry's
  int column = 0;     // from 1

  friend bool operator==(const FileSetting&, const FileSetting&) = default;
};

// In the order of the schema. INVALID_ARGUMENT with a line for each mistake: PATH:LINE:COLUMN: what is wrong.
absl::StatusOr<std::vector<FileSetting>> ReadConfigFile(const std::string& path);
absl::StatusOr<std::vector<FileSetting>> ParseConfig(std::string_view text, std::string_view path);

// The same the other way: a line, or one for each entry of a list, as a config file has them; of an empty list a
// comment.
struct ConfigLine {
  std::string name;
  std::string text;
};
// Of all fields of the schema, with the values that their flags have now.
std::vector<ConfigLine> PrintConfig();

}  // namespace rnnserve
