// SPDX-License-Identifier: Apache-2.0
// The file of --config: a text of rnnserve.config.Config (config.proto).
//
//   absl::StatusOr<std::vector<FileSetting>> settings = ReadConfigFile("/etc/rnnserve.textproto");
//   // {"max_calls", "4096", {{3, 1}}}, {"listen", "a:1,b:2", {{4, 1}, {5, 1}}}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rnnserve {

struct FilePosition {
  int line = 0;    // from 1
  int column = 0;  // from 1
};

struct FileSetting {
  std::string name;
  std::string value;                 // as the flag of this name takes it
  std::vector<FilePosition> places;  // of each entry of a list; else one
};

// In the order of the schema. INVALID_ARGUMENT with a line for each mistake: PATH:LINE:COLUMN: what is wrong.
absl::StatusOr<std::vector<FileSetting>> ReadConfigFile(const std::string& path);
absl::StatusOr<std::vector<FileSetting>> ParseConfig(std::string_view text, std::string_view path);

// The same the other way: a line, or one for each entry of a list, as a config file has them; of an empty list a
// comment.
struct ConfigLine {
  std::string name;
  std::string text;
  size_t entry = 0;  // of a list
};
// A line for each field of the schema, with the value that its flag has now.
std::vector<ConfigLine> PrintConfig();

}  // namespace rnnserve
