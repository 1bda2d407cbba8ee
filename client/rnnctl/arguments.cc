// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/nearest.h"
#include "base/view.h"

namespace rnnserve::rnnctl {
namespace {

constexpr std::string_view kUsageReason = "rnnctl/USAGE";
constexpr Flag kHelp = {.name = "help", .value = "", .help = "this text"};

const Flag* Find(std::span<const Flag> flags, std::string_view name) {
  if (name == kHelp.name) return &kHelp;
  const auto found = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

const Flag* FindShort(std::span<const Flag> flags, std::string_view name) {
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [&](const Flag& flag) { return name.size() == 1 && flag.short_name == name[0]; });
  return found == flags.end() ? nullptr : &*found;
}

absl::Status UnknownFlag(std::string_view word, std::string_view name, std::span<const Flag> flags) {
  std::vector<std::string_view> names;
  for (const Flag& flag : flags) names.push_back(flag.name);
  const std::string_view nearest = Nearest(name, names);
  return UsageError(absl::StrCat("unknown flag ", View(word),
                                 nearest.empty() ? "" : absl::StrCat("; did you mean --", View(nearest), "?")));
}

bool IsFlagWord(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

}  // namespace

absl::Status UsageError(std::string_view message) {
  return WithReason(absl::InvalidArgumentError(View(message)), kUsageReason);
}

bool IsUsageError(const absl::Status& status) { return ReasonOf(status) == kUsageReason; }

absl::StatusOr<Arguments> Arguments::Parse(std::span<const std::string> words, std::span<const Flag> flags) {
  Arguments arguments;
  for (size_t k = 0; k < words.size(); ++k) {
    const std::string& word = words[k];
    if (word == "--") {
      arguments.positional_.insert(arguments.positional_.end(), words.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                                   words.end());
      break;
    }
    if (!IsFlagWord(word)) {
      arguments.positional_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    name = name == "-h" ? "help" : name.substr(std::min(name.find_first_not_of('-'), name.size()));
    const Flag* flag = word.starts_with("--") ? Find(flags, name) : FindShort(flags, name);
    if (flag == nullptr && !word.starts_with("--")) flag = Find(flags, name);  // to be told about the dashes
    if (flag == nullptr) return UnknownFlag(word.substr(0, equals), name, flags);
    const bool is_short = name.size() == 1 && name[0] == flag->short_name;
    if (is_short) name = flag->name;
    if (word != "-h" && !is_short && !word.starts_with("--")) {
      return UsageError(absl::StrCat("unknown flag ", word, "; long flags take two dashes: --", name));
    }
    if (arguments.Has(name) && !flag->repeated) {
      return UsageError(absl::StrCat("--", name, " is given twice; it takes one value"));
    }
    std::string value;
    if (flag->value.empty()) {
      if (equals != std::string::npos) return UsageError(absl::StrCat("--", name, " takes no value"));
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (k + 1 < words.size() && !words[k + 1].starts_with("--")) {
      value = words[++k];
    } else {
      return UsageError(absl::StrCat("--", name, " needs a value: --", name, "=", View(flag->value)));
    }
    arguments.values_[name].push_back(std::move(value));
  }
  return arguments;
}

std::optional<std::string> Arguments::Get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::All(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

}  // namespace rnnserve::rnnctl
