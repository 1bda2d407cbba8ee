// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace rnnserve {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("rnnserve", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

// A line break in a text would forge an event.
void Log(spdlog::level::level_enum level, std::string_view text) {
  if (!Logger().should_log(level)) return;
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  Logger().log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

bool SetLogLevel(std::string_view level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") return false;
  Logger().set_level(parsed);
  return true;
}

void LogDebug(std::string_view text) { Log(spdlog::level::debug, text); }
void LogInfo(std::string_view text) { Log(spdlog::level::info, text); }
void LogWarning(std::string_view text) { Log(spdlog::level::warn, text); }
void LogError(std::string_view text) { Log(spdlog::level::err, text); }

}  // namespace rnnserve
