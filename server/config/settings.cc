// SPDX-License-Identifier: Apache-2.0
#include "server/config/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/config/command_line.h"
#include "server/config/flags.h"

namespace rnnserve {
namespace {

constexpr std::array<std::string_view, 5> kReadAgain = {"tls_cert", "tls_key", "tls_client_ca", "tokens_file",
                                                        "session_secret_file"};

// --name=value, --name value, --name and --noname of a bool, with one dash or two; "" if it is none of them.
std::string FlagNamed(absl::string_view word) {
  if (!absl::ConsumePrefix(&word, "-")) return "";
  absl::ConsumePrefix(&word, "-");
  word = word.substr(0, word.find('='));
  if (absl::FindCommandLineFlag(word) == nullptr) absl::ConsumePrefix(&word, "no");
  return absl::FindCommandLineFlag(word) == nullptr ? "" : std::string(word);
}

std::set<std::string> FlagsOf(int argc, char** argv) {
  std::set<std::string> names;
  for (int k = 1; k < argc; ++k) {
    const absl::string_view word = argv[k];
    if (word == "--") break;
    const std::string name = FlagNamed(word);
    if (name.empty()) continue;
    names.insert(name);
    const bool has_value = absl::StrContains(word, "=") || absl::FindCommandLineFlag(name)->IsOfType<bool>();
    if (!has_value) ++k;
  }
  return names;
}

std::vector<std::string> ParseWords(int argc, char** argv) {
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  std::vector<std::string> words(rest.begin() + 1, rest.end());
  std::erase(words, "");  // some container runtimes add an empty one to HEALTHCHECK
  return words;
}

}  // namespace

bool IsFileReadAgain(std::string_view name) { return std::ranges::find(kReadAgain, name) != kReadAgain.end(); }

absl::StatusOr<Settings> Settings::Load(int argc, char** argv) {
  RETURN_IF_ERROR(CheckCommandLine(argc, argv));
  Settings settings;
  settings.words_ = ParseWords(argc, argv);
  settings.on_command_line_ = FlagsOf(argc, argv);
  settings.path_ = absl::GetFlag(FLAGS_config);
  if (settings.path_.empty()) return settings;
  ASSIGN_OR_RETURN(std::vector<FileSetting> of_file, ReadConfigFile(settings.path_));
  RETURN_IF_ERROR(settings.TakeFile(std::move(of_file)));
  return settings;
}

absl::Status Settings::TakeFile(std::vector<FileSetting> of_file) {
  std::string mistakes;
  for (FileSetting& setting : of_file) {
    if (IsOnCommandLine(setting.name)) continue;
    absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(setting.name);
    if (flag.CurrentValue() != flag.DefaultValue()) {  // by a --flagfile or from the environment, as Abseil has them
      on_command_line_.insert(setting.name);
      continue;
    }
    std::string why;
    if (!flag.ParseFrom(setting.value, &why)) {
      absl::StrAppend(&mistakes, mistakes.empty() ? "" : "\n", path_, ":", setting.places[0].line, ":",
                      setting.places[0].column, ": ", setting.name, ": \"", setting.value, "\" is not what it takes",
                      why.empty() ? "" : ": ", why);
      continue;
    }
    lines_[setting.name] = setting;
    of_file_.push_back(std::move(setting));
  }
  if (!mistakes.empty()) return absl::InvalidArgumentError(mistakes);
  return absl::OkStatus();
}

absl::StatusOr<Settings> Settings::WithFile(std::vector<FileSetting> of_file) const {
  Settings settings = *this;
  const auto reset = [](const std::string& name) {
    absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
    std::string why;
    flag.ParseFrom(flag.DefaultValue(), &why);
  };
  for (const FileSetting& setting : settings.of_file_) reset(setting.name);
  for (const FileSetting& setting : of_file) {
    if (derived_.contains(setting.name)) reset(setting.name);
  }
  settings.of_file_.clear();
  settings.lines_.clear();
  RETURN_IF_ERROR(settings.TakeFile(std::move(of_file)));
  return settings;
}

const FilePosition* Settings::PlaceOf(const std::string& name, size_t entry) const {
  const auto line = lines_.find(name);
  if (line == lines_.end()) return nullptr;
  const std::vector<FilePosition>& places = line->second.places;
  return &places[std::min(entry, places.size() - 1)];
}

std::string Settings::OriginOf(const std::string& name, size_t entry) const {
  if (const auto derived = derived_.find(name); derived != derived_.end()) return derived->second;
  if (const FilePosition* place = PlaceOf(name, entry)) return absl::StrCat(path_, ":", place->line);
  if (on_command_line_.contains(name)) return "flag";
  // Those of a --flagfile are not seen above.
  const absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
  return flag.CurrentValue() == flag.DefaultValue() ? "default" : "flag";
}

std::string Settings::Named(const std::string& name, size_t entry) const {
  const std::string value = absl::FindCommandLineFlag(name)->CurrentValue();
  const FilePosition* place = PlaceOf(name, entry);
  if (place == nullptr) return absl::StrCat("--", name, "=", value);
  return absl::StrCat(path_, ":", place->line, ":", place->column, ": ", name, "=", value);
}

std::string Settings::Print() const {
  std::string text = "# What is in force, and where it comes from. Settings are read at the start alone.\n";
  for (const ConfigLine& line : PrintConfig()) {
    const auto meaning = meanings_.find(line.name);
    const bool names_file = IsFileReadAgain(line.name) && !absl::FindCommandLineFlag(line.name)->CurrentValue().empty();
    absl::StrAppend(&text, line.text, "  # ", OriginOf(line.name, line.entry),
                    meaning == meanings_.end() ? "" : absl::StrCat("; ", meaning->second),
                    names_file ? "; what it names is read again when it changes\n" : "\n");
  }
  return text;
}

}  // namespace rnnserve
