// SPDX-License-Identifier: Apache-2.0
#include "server/store/redis_error.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/view.h"

namespace rnnserve {
namespace {

using ErrorKind = RedisError::Kind;

constexpr size_t kMostText = 200;

constexpr std::pair<std::string_view, ErrorKind> kKinds[] = {
    {"LOADING", ErrorKind::kRetry},     {"READONLY", ErrorKind::kReplica}, {"MASTERDOWN", ErrorKind::kRetry},
    {"CLUSTERDOWN", ErrorKind::kRetry}, {"TRYAGAIN", ErrorKind::kRetry},   {"BUSY", ErrorKind::kRetry},
    {"NOREPLICAS", ErrorKind::kRetry},  {"MISCONF", ErrorKind::kRetry},    {"OOM", ErrorKind::kFull},
    {"MOVED", ErrorKind::kMoved},       {"ASK", ErrorKind::kAsk},          {"NOAUTH", ErrorKind::kAuth},
    {"NOSCRIPT", ErrorKind::kNoScript}, {"NOPERM", ErrorKind::kAuth},      {"WRONGPASS", ErrorKind::kAuth},
};

// Redis 6 says ERR where a command of a script fails, and the error itself further on.
ErrorKind KindOf(std::string_view text) {
  const std::string_view first = text.substr(0, text.find(' '));
  const bool of_script = first == "ERR" && absl::StrContains(View(text), "Error running script");
  for (const auto& [word, kind] : kKinds) {
    if (first == word) return kind;
    if (of_script && (kind == ErrorKind::kRetry || kind == ErrorKind::kReplica || kind == ErrorKind::kFull) &&
        (absl::StrContains(View(text), absl::StrCat("-", View(word), " ")) ||
         absl::StrContains(View(text), absl::StrCat(": ", View(word), " ")))) {
      return kind;
    }
  }
  return first == "ERR" && absl::StrContains(View(text), "max number of clients") ? ErrorKind::kRetry
                                                                                  : ErrorKind::kOther;
}

}  // namespace

RedisError ReadRedisError(std::string_view text) {
  RedisError error = {.kind = KindOf(text), .text = absl::CHexEscape(View(text.substr(0, kMostText)))};
  if (error.kind != ErrorKind::kMoved && error.kind != ErrorKind::kAsk) return error;
  // MOVED slot host:port; the host may have colons, and may be empty.
  const std::vector<absl::string_view> words = absl::StrSplit(View(text), ' ');
  const size_t colon = words.size() == 3 ? words[2].rfind(':') : absl::string_view::npos;
  const bool has_port =
      colon != absl::string_view::npos && absl::SimpleAtoi(words[2].substr(colon + 1), &error.to.port);
  if (!has_port || error.to.port < 1 || error.to.port > 65535) {
    error.kind = ErrorKind::kOther;
    return error;
  }
  error.to.host = std::string(words[2].substr(0, colon));
  return error;
}

}  // namespace rnnserve
