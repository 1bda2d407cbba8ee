// SPDX-License-Identifier: Apache-2.0
// Texts and pairs of numbers that travel with a status.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/view.h"

namespace rnnserve {

inline std::optional<std::string> PayloadOf(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

// Of a status that is not OK.
inline void SetPayload(absl::Status& status, const char* url, std::string_view text) {
  status.SetPayload(url, absl::Cord(View(text)));
}

template <typename Number>
void SetPair(absl::Status& status, const char* url, Number first, Number second) {
  status.SetPayload(url, absl::Cord(absl::StrCat(first, ",", second)));
}

template <typename Number>
std::optional<std::pair<Number, Number>> PairOf(const absl::Status& status, const char* url) {
  const std::optional<std::string> payload = PayloadOf(status, url);
  if (!payload) return std::nullopt;
  const std::pair<std::string, std::string> parts = absl::StrSplit(*payload, ',');
  std::pair<Number, Number> numbers;
  if (!absl::SimpleAtoi(parts.first, &numbers.first) || !absl::SimpleAtoi(parts.second, &numbers.second)) {
    return std::nullopt;
  }
  return numbers;
}

}  // namespace rnnserve
