// SPDX-License-Identifier: Apache-2.0
// Reports changes of the file of --config: settings that need a restart, or mistakes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/config/settings.h"

namespace rnnserve {

class ConfigWatch {
 public:
  // `settings` outlives it.
  explicit ConfigWatch(const Settings& settings) : settings_(settings) {}

  // Reads the file. Call it at intervals, from one thread. Returns a message once for each change.
  std::optional<std::string> Check();

 private:
  const Settings& settings_;
  std::string last_message_;  // the last message
};

}  // namespace rnnserve
