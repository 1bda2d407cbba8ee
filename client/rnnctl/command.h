// SPDX-License-Identifier: Apache-2.0
// Sub-commands: the table of them, their help, and how an outcome becomes an exit code.
#pragma once

#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {

// Documented in every --help; scripts rely on them.
enum ExitCode : int {
  kOk = 0,
  kRefused = 1,        // the server refused the call or failed
  kUsage = 2,          // a flag, a file or the request's JSON is wrong
  kCannotConnect = 3,  // no server at --server
  kTimedOut = 4,       // --timeout passed
  kCannotWrite = 5,    // the results could not be written
};

struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

struct Command {
  std::string_view name;     // "models load"
  std::string_view summary;  // one line of `rnnctl help`
  std::string_view usage;    // after "rnnctl NAME"
  std::string_view text;     // paragraphs and examples
  std::span<const Flag> flags;
  absl::Status (*run)(const Arguments& arguments, Streams& streams);
};

// The commands of each file.
std::span<const Command> BenchCommands();
std::span<const Command> InferCommands();
std::span<const Command> InspectCommands();
std::span<const Command> ModelCommands();
std::span<const Command> SessionCommands();
std::span<const Command> StreamCommands();

// A whole run of the program; `words` without the program's name.
int Run(const std::vector<std::string>& words, Streams streams);

}  // namespace rnnserve::rnnctl
