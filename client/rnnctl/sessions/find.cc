// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/sessions/find.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {
namespace {

constexpr size_t kKeyLength = 56;
constexpr size_t kMostSearched = 200'000;  // sessions looked through for a name
constexpr size_t kLeastPrefix = 6;

bool LooksLikeKey(const std::string& word) {
  return word.size() == kKeyLength && std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_';
         });
}

}  // namespace

absl::StatusOr<client::SessionInfo> FindSession(client::SessionClient& sessions, const std::string& word) {
  ASSIGN_OR_RETURN(const std::vector<client::SessionInfo> all, sessions.List(kMostSearched));
  const client::SessionInfo* found = nullptr;
  for (const client::SessionInfo& info : all) {
    if (info.key == word || info.name == word) return info;
    if (word.size() < kLeastPrefix || !info.key.starts_with(word)) continue;
    if (found != nullptr) return UsageError(absl::StrCat(word, " begins the keys of several sessions; say more of it"));
    found = &info;
  }
  if (found != nullptr) return *found;
  return WithReason(absl::NotFoundError(
                        absl::StrCat("no live session has the name or key ", word, "; rnnctl sessions ls lists them")),
                    "SESSION_UNKNOWN");
}

absl::StatusOr<std::string> FindKey(client::SessionClient& sessions, const std::string& word) {
  if (LooksLikeKey(word)) return word;
  ASSIGN_OR_RETURN(const client::SessionInfo info, FindSession(sessions, word));
  return info.key;
}

}  // namespace rnnserve::rnnctl
