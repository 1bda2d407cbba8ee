// SPDX-License-Identifier: Apache-2.0
// A shared library that claims to hold an engine, up to the point where both sides agree on the ABI.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/plugin/engine_abi.h"

namespace rnnserve::plugin {

// Loads the library at `path` (as dlopen takes it) and checks its version; the table has every function and a name.
// The library stays loaded for good, even after a refusal: drivers and their threads do not survive being unloaded.
absl::StatusOr<const rnnserve_api*> OpenLibrary(const std::string& path);

}  // namespace rnnserve::plugin
