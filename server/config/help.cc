// SPDX-License-Identifier: Apache-2.0
#include "server/config/help.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <string_view>

#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"

namespace rnnserve {
namespace {

constexpr char kUsage[] =
    "serves recurrent operators (LSTM, GRU, RNN) over gRPC.\n\n"
    "  rnnserve --listen=0.0.0.0:50051 --models=/srv/models\n"
    "  rnnserve --listen=unix:/run/rnnserve.sock,127.0.0.1:0 --port_file=port.txt\n"
    "  rnnserve --config=/etc/rnnserve.textproto\n\n"
    "  rnnserve config print [--config=...] [flags]     what would be in force, and where it comes from\n"
    "  rnnserve healthcheck [ready]     asks the server that runs here, or the one of --admin_listen, whether it "
    "lives\n"
    "                                   (ready: whether it takes calls)\n\n"
    "SIGTERM or SIGINT: health turns NOT_SERVING, calls being served finish, exit 0; a second one skips the waits.\n"
    "Exit codes: 0 left in good order, or healthy; 1 could not start, a flag is wrong, or not healthy.";

bool IsOurs(absl::string_view file) { return absl::EndsWith(file, "server/config/flags.cc"); }

std::map<std::string, const absl::CommandLineFlag*> OurFlags() {
  std::map<std::string, const absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (IsOurs(flag->Filename())) flags.emplace(std::string(name), flag);
  }
  return flags;
}

}  // namespace

void SetUsage(const std::string& version) {
  absl::FlagsUsageConfig usage;
  usage.version_string = [version] { return "rnnserve " + version + "\n"; };
  usage.contains_help_flags = IsOurs;
  absl::SetFlagsUsageConfig(usage);
  absl::SetProgramUsageMessage(kUsage);
}

bool AsksForHelp(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const std::string_view word) { return word == "--help" || word == "-help" || word == "-h"; });
}

void PrintHelp() {
  std::cout << "rnnserve " << kUsage << "\n\nFlags:\n";
  for (const auto& [name, flag] : OurFlags()) {
    const std::string value = flag->DefaultValue();
    std::cout << "  --" << name << (value.empty() ? "" : "=" + value) << "\n      " << flag->Help() << "\n";
  }
  std::cout << "  --help, --version\n";
}

std::vector<std::string> FlagNames() {
  std::vector<std::string> names;
  for (const auto& [name, flag] : OurFlags()) names.push_back(name);
  return names;
}

}  // namespace rnnserve
