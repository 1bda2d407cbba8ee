// SPDX-License-Identifier: Apache-2.0
// The settings in force and where each comes from: the command line, else the file of --config, else the default.
//
//   absl::StatusOr<Settings> settings = Settings::Load(argc, argv);   // the flags have their values now
//   settings->Named("max_calls");                                     // "--max_calls=0", or "FILE:3: max_calls=0"
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config_file.h"

namespace rnnserve {

class Settings {
 public:
  // INVALID_ARGUMENT names the mistake and its place, in the file or on the command line.
  static absl::StatusOr<Settings> Load(int argc, char** argv);

  // What is no flag on the command line, without the program's name.
  const std::vector<std::string>& words() const { return words_; }
  // "default", "flag", or the file's path and line: of a list those of an entry.
  std::string OriginOf(const std::string& name, size_t entry = 0) const;
  // For a value that the server has derived.
  void SetOrigin(const std::string& name, std::string origin) { derived_[name] = std::move(origin); }
  // What a value of 0 stands for here, such as "192, 64 below ...".
  void SetMeaning(const std::string& name, std::string meaning) { meanings_[name] = std::move(meaning); }
  // How an error names a setting and its value; of a list at the place of an entry.
  std::string Named(const std::string& name, size_t entry = 0) const;
  // The path of --config; "" if there is none.
  const std::string& path() const { return path_; }
  // Those of the file that no flag overrides.
  const std::vector<FileSetting>& of_file() const { return of_file_; }
  bool IsOnCommandLine(const std::string& name) const { return on_command_line_.contains(name); }

  // These with another file. Sets the flags that it names and that neither the command line nor this file has set: for
  // a look at what would be (ConfigWatch), not while other threads read flags. INVALID_ARGUMENT as Load.
  absl::StatusOr<Settings> WithFile(std::vector<FileSetting> of_file) const;

  // What is in force, as a config file, each line with its origin.
  std::string Print() const;

 private:
  Settings() = default;
  absl::Status TakeFile(std::vector<FileSetting> of_file);
  // In the file; null: it does not say.
  const FilePosition* PlaceOf(const std::string& name, size_t entry) const;

  std::vector<std::string> words_;
  std::string path_;
  std::vector<FileSetting> of_file_;
  std::map<std::string, FileSetting> lines_;  // of_file_ by name
  std::set<std::string> on_command_line_;
  std::map<std::string, std::string> derived_;
  std::map<std::string, std::string> meanings_;
};

// Whether the content of what a setting names is read again while the server runs.
bool IsFileReadAgain(std::string_view name);

}  // namespace rnnserve
