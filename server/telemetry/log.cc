// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace rnnserve {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";
constexpr size_t kMostText = 4096;
constexpr size_t kMostValue = 256;
constexpr size_t kMostProblems = 20;

std::atomic<bool> as_json = false;

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("rnnserve", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern(kTextPattern);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

struct Problems {
  Mutex mutex;
  std::deque<LoggedProblem> latest ABSL_GUARDED_BY(mutex);  // the newest first
};

Problems& TheProblems() {
  static auto* problems = new Problems;  // never destroyed: threads may log while the process ends
  return *problems;
}

void Remember(spdlog::level::level_enum level, std::string text) {
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  Problems& problems = TheProblems();
  const MutexLock lock(problems.mutex);
  problems.latest.push_front({absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()),
                              std::string(name.data(), name.size()), std::move(text)});
  if (problems.latest.size() > kMostProblems) problems.latest.pop_back();
}

// Bytes at `at` that a terminal or a reader of lines would act upon instead of showing them: controls of ASCII and of
// Unicode (U+0080 to U+009F), line and paragraph separators and what turns the direction of text (U+2028 to U+202E).
size_t ControlBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t k) { return at + k < text.size() ? static_cast<unsigned char>(text[at + k]) : 0; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  if (byte(0) == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) return 3;
  return 0;
}

// A line break in a text would forge an event.
std::string OneLine(std::string_view text, size_t most) {
  std::string line(text.substr(0, most));
  for (size_t at = 0; at < line.size(); ++at) {
    if (const size_t control = ControlBytes(line, at); control > 0) line.replace(at, control, 1, ' ');
  }
  return line;
}

// As it stands, if nothing in it could be taken for another field; else "in quotes, with \" and \n and \x1b escaped".
std::string LogfmtValue(std::string_view text) {
  std::string quoted = "\"";
  bool is_bare = !text.empty();
  for (size_t at = 0; at < text.size();) {
    if (const size_t control = ControlBytes(text, at); control > 0) {
      is_bare = false;
      for (size_t k = 0; k < control; ++k) {
        const char c = text[at + k];
        absl::StrAppend(&quoted, c == '\n'
                                     ? "\\n"
                                     : absl::StrCat("\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2)));
      }
      at += control;
      continue;
    }
    const char c = text[at++];
    is_bare &= c != ' ' && c != '=' && c != '"' && c != '\\';
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return is_bare ? std::string(text) : quoted + '"';
}

std::string JsonMember(std::string_view name, std::string_view value, size_t most) {
  const auto dump = [](std::string text) {
    return nlohmann::json(std::move(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  return absl::StrCat(dump(std::string(name)), ":", dump(std::string(value.substr(0, most))));
}

void Log(spdlog::level::level_enum level, std::string_view text, LogFields fields) {
  if (!Logger().should_log(level)) return;
  const std::string line = as_json.load() ? LogLineAsJson(text, fields) : LogLineAsText(text, fields);
  Logger().log(level, spdlog::string_view_t(line.data(), line.size()));
  if (level >= spdlog::level::warn) Remember(level, OneLine(text, kMostText));
}

}  // namespace

std::string LogLineAsText(std::string_view text, LogFields fields) {
  std::string line = OneLine(text, kMostText);
  // Before fields, a text that could hold some must not pass for them.
  if (fields.size() > 0 && line.find('=') != std::string::npos) line = LogfmtValue(text.substr(0, kMostText));
  for (const LogField& field : fields) {
    if (field.value.empty()) continue;
    absl::StrAppend(&line, " ", std::string(field.name), "=", LogfmtValue(field.value.substr(0, kMostValue)));
  }
  return line;
}

std::string LogLineAsJson(std::string_view text, LogFields fields) {
  std::string line = JsonMember("message", text, kMostText);
  for (const LogField& field : fields) {
    if (!field.value.empty()) absl::StrAppend(&line, ",", JsonMember(field.name, field.value, kMostValue));
  }
  return line;
}

bool SetLogLevel(std::string_view level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") return false;
  Logger().set_level(parsed);
  return true;
}

bool SetLogFormat(std::string_view format) {
  if (format != "text" && format != "json") return false;
  as_json.store(format == "json");
  Logger().set_pattern(format == "json" ? kJsonPattern : kTextPattern);
  return true;
}

std::vector<LoggedProblem> LatestProblems() {
  Problems& problems = TheProblems();
  const MutexLock lock(problems.mutex);
  return {problems.latest.begin(), problems.latest.end()};
}

void LogDebug(std::string_view text, LogFields fields) { Log(spdlog::level::debug, text, fields); }
void LogInfo(std::string_view text, LogFields fields) { Log(spdlog::level::info, text, fields); }
void LogWarning(std::string_view text, LogFields fields) { Log(spdlog::level::warn, text, fields); }
void LogError(std::string_view text, LogFields fields) { Log(spdlog::level::err, text, fields); }

}  // namespace rnnserve
