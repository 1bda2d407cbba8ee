// SPDX-License-Identifier: Apache-2.0
// Checks the values of the flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/config/settings.h"

namespace rnnserve {

// Logs each wrong value with its origin. Checks values only: files and addresses are tried later.
bool CheckFlags(const Settings& settings);

// The same for other settings than those in force, while the flags have their values: returns what is wrong, logs
// nothing.
std::vector<std::string> MistakesOf(const Settings& settings);

// Whether an address of --listen is a unix socket or on loopback, which only this machine reaches.
bool IsLocalAddress(std::string_view address);

}  // namespace rnnserve
