// SPDX-License-Identifier: Apache-2.0
// Whether the flags can be served with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/config/settings.h"

namespace rnnserve {

// Tells the log of each that cannot, by where it came from. Looks at values alone: files and addresses come later.
bool CheckFlags(const Settings& settings);

// The same of other settings than those in force, while their flags have these values: what is wrong, nothing is told.
std::vector<std::string> MistakesOf(const Settings& settings);

// Of --listen: a unix socket, or one of loopback, which only this machine reaches.
bool IsLocalAddress(std::string_view address);

}  // namespace rnnserve
