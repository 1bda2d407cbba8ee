// SPDX-License-Identifier: Apache-2.0
// Tells the log when the file of --config has changed: what of it takes a restart, or what is wrong with it now.
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

  // Reads the file. To be called now and then, from one thread. Returns what there is to say, once for each change.
  std::optional<std::string> Look();

 private:
  const Settings& settings_;
  std::string told_;  // of the file as it is
};

}  // namespace rnnserve
