// SPDX-License-Identifier: Apache-2.0
// --help and --version. Abseil's own help speaks of source files and ends with 1.
#pragma once

#include <string>
#include <vector>

namespace rnnserve {

// Before flags are parsed. `version`: of the program.
void SetUsage(const std::string& version);
// Whether a word of the command line asks for help.
bool AsksForHelp(int argc, char** argv);
void PrintHelp();
// The names of the flags that --help lists.
std::vector<std::string> FlagNames();

}  // namespace rnnserve
