// SPDX-License-Identifier: Apache-2.0
#include "server/config/command_line.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/nearest.h"
#include "server/config/help.h"

namespace rnnserve {
namespace {

// No flag's is longer.
constexpr size_t kLongestName = 64;

// Abseil knows these without having them as flags.
bool IsAbout(absl::string_view name) { return name == "version" || absl::StartsWith(name, "help"); }

struct RetiredFlag {
  absl::string_view name;
  absl::string_view instead;
};

// Flags of earlier versions, and what replaces each; the nearest name of a flag would send the operator to another one.
constexpr auto kRetiredFlags = std::to_array<RetiredFlag>({
    {"max_reply_bytes", "--max_message_bytes bounds replies as well"},
    {"max_steps", "--max_message_bytes bounds the steps of a request"},
    {"max_send_duration", "it is two minutes, or --max_call_duration if that is shorter"},
    {"max_session_idle_timeout", "it is 24h, or --session_idle_timeout if that is longer"},
    {"short_slice", "its value is fixed, since no other one gained anything"},
    {"poll_ahead", "it is 200us, or 0 where there is one CPU"},
    {"max_request_bytes_in_flight", "--max_bytes_in_flight bounds messages"},
    {"max_output_bytes_in_flight", "--max_bytes_in_flight bounds outputs and states as well"},
    {"max_streams", "--max_calls bounds streams as well"},
    {"inline_weight_bytes", "it is a sixth of --model_weight_bytes"},
    {"max_tenant_model_bytes", "--max_tenant_share is one tenant's share of --model_weight_bytes"},
    {"max_tenant_session_bytes", "--max_tenant_share is one tenant's share of --session_bytes"},
    {"admin_port_file", "the number of the admin port is in the file of --port_file with .admin behind its name"},
    {"max_transport_bytes", "it is an eighth of --memory_limit, at most 1 GiB"},
    {"max_tenant_models", "--max_tenant_share bounds the bytes of one tenant's models, each of 4 KiB at least"},
});

std::string UnknownFlag(absl::string_view name) {
  name = name.substr(0, kLongestName);
  if (const std::string instead = InsteadOfRetired(name); !instead.empty()) {
    return absl::StrCat("--", name, " is no longer a flag: ", instead);
  }
  const std::string nearest = NearestFlag(name);
  return absl::StrCat("--", name, " is no flag", nearest.empty() ? "" : absl::StrCat("; --", nearest, " is one"),
                      "; rnnserve --help lists them");
}

absl::string_view Expected(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<absl::Duration>()) return "a duration such as 500ms, 30s, 1h30m or inf";
  if (flag.IsOfType<bool>()) return "true or false";
  if (flag.IsOfType<double>()) return "a number";
  if (flag.IsOfType<int32_t>()) return "a whole number of 32 bits";
  if (flag.IsOfType<int64_t>()) return "a whole number of 64 bits, without unit";
  return "another value";
}

}  // namespace

std::string InsteadOfRetired(absl::string_view name) {
  const auto retired = std::ranges::find(kRetiredFlags, name, &RetiredFlag::name);
  return retired == kRetiredFlags.end() ? "" : std::string(retired->instead);
}

std::string NearestFlag(absl::string_view name) {
  const std::vector<std::string> known = FlagNames();
  const std::vector<std::string_view> names(known.begin(), known.end());
  return std::string(Nearest({name.data(), name.size()}, names));
}

absl::Status CheckCommandLine(int argc, char** argv) {
  std::vector<std::string> mistakes;
  for (int k = 1; k < argc; ++k) {
    absl::string_view word = argv[k];
    if (word == "--") break;
    if (!absl::ConsumePrefix(&word, "-") || word.empty()) continue;
    absl::ConsumePrefix(&word, "-");
    const size_t equals = word.find('=');
    const absl::string_view name = word.substr(0, equals);
    if (name == "undefok") return absl::OkStatus();  // Abseil's: names flags that may be unknown
    absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr) {
      absl::string_view positive = name;
      const bool is_negation = equals == absl::string_view::npos && absl::ConsumePrefix(&positive, "no") &&
                               absl::FindCommandLineFlag(positive) != nullptr &&
                               absl::FindCommandLineFlag(positive)->IsOfType<bool>();
      if (!is_negation && !IsAbout(name)) mistakes.push_back(UnknownFlag(name));
      continue;
    }
    if (equals == absl::string_view::npos && flag->IsOfType<bool>()) continue;
    if (equals == absl::string_view::npos && k + 1 == argc) {
      mistakes.push_back(absl::StrCat("--", name, ": expected a value behind it, as in --", name, "=VALUE"));
      continue;
    }
    const std::string value(equals == absl::string_view::npos ? argv[++k] : word.substr(equals + 1));
    std::string why;
    if (flag->ParseFrom(value, &why)) continue;
    mistakes.push_back(absl::StrCat("--", name, "=", value, ": expected ", Expected(*flag)));
  }
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(mistakes, "\n"));
}

}  // namespace rnnserve
