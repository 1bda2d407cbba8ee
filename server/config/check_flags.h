// SPDX-License-Identifier: Apache-2.0
// Whether the flags can be served with.
#pragma once

#include <string_view>

#include "server/config/settings.h"

namespace rnnserve {

// Tells the log of each that cannot, by where it came from. Looks at values alone: files and addresses come later.
bool CheckFlags(const Settings& settings);

// Of --listen: a unix socket, or one of loopback, which only this machine reaches.
bool IsLocalAddress(std::string_view address);

}  // namespace rnnserve
