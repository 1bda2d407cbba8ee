// SPDX-License-Identifier: Apache-2.0
#include "server/config/config_watch.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/config/check_flags.h"
#include "server/config/help.h"

namespace rnnserve {
namespace {

std::map<std::string, std::string> ValuesOf(const std::vector<FileSetting>& settings) {
  std::map<std::string, std::string> values;
  for (const FileSetting& setting : settings) values[setting.name] = setting.value;
  return values;
}

constexpr char kWillFail[] = "the config file has changed, and the next start will fail: ";

// Puts all flags back to what they were; absl::FlagSaver does as well, and writes a line of its own for each.
class FlagValues {
 public:
  FlagValues() {
    for (const std::string& name : FlagNames()) values_[name] = absl::FindCommandLineFlag(name)->CurrentValue();
  }
  ~FlagValues() {
    for (const auto& [name, value] : values_) {
      absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
      std::string error;
      if (flag.CurrentValue() != value) flag.ParseFrom(value, &error);
    }
  }
  FlagValues(const FlagValues&) = delete;
  FlagValues& operator=(const FlagValues&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

// "" if a start would take it. The flags are as before afterwards: no other thread reads them once the server runs.
std::string MistakesOfFile(const Settings& settings, const std::vector<FileSetting>& of_file) {
  const FlagValues before;
  const absl::StatusOr<Settings> next = settings.WithFile(of_file);
  if (!next.ok()) return std::string(next.status().message());
  return absl::StrJoin(MistakesOf(*next), "; ");
}

}  // namespace

std::optional<std::string> ConfigWatch::Check() {
  if (settings_.path().empty()) return std::nullopt;
  const absl::StatusOr<std::vector<FileSetting>> read = ReadConfigFile(settings_.path());
  std::string change;
  if (!read.ok()) {
    change = absl::StrCat(kWillFail, read.status().message());
  } else {
    const std::map<std::string, std::string> before = ValuesOf(settings_.of_file());
    std::map<std::string, std::string> now = ValuesOf(*read);
    std::erase_if(now, [&](const auto& entry) { return settings_.IsOnCommandLine(entry.first); });
    std::set<std::string> differing;
    for (const auto& [name, value] : before) {
      if (const auto found = now.find(name); found == now.end() || found->second != value) differing.insert(name);
    }
    for (const auto& [name, value] : now) {
      if (!before.contains(name)) differing.insert(name);
    }
    const std::string mistakes = differing.empty() ? "" : MistakesOfFile(settings_, *read);
    if (!mistakes.empty()) {
      change = absl::StrCat(kWillFail, mistakes);
    } else if (!differing.empty()) {
      change = absl::StrCat(settings_.path(), " has changed; a restart is needed for ", absl::StrJoin(differing, ", "));
    }
  }
  if (change == last_message_) return std::nullopt;
  last_message_ = change;
  if (change.empty()) return absl::StrCat(settings_.path(), " is again as it was at the start");
  return change;
}

}  // namespace rnnserve
