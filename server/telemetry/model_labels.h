// SPDX-License-Identifier: Apache-2.0
// Which models have series of their own: the first ones that work comes for, as many as there may be. All others count
// together, so that a scrape stays small however many models are loaded, come and go. Places are kept for the models
// that the operator started the server with, so that callers with the permission to load models cannot take them away.
//
//   ModelLabels labels(32, {"kws"});
//   labels.Of("vad");   // "vad", or kOtherModels; the same each time, so that no counter ever goes back
//   labels.Own({"a", "kws", "vad"});  // those that have series of their own, or would get them with their first call
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace rnnserve {

// What stands in parentheses cannot be a model's name. These are no models, and have series of their own besides.
// Operators that come inline or by fingerprint: callers are not bounded.
inline constexpr std::string_view kInlineModel = "(inline)";
// A request for a session of another run of the server does not name its model.
inline constexpr std::string_view kUnknownModel = "(unknown)";
// Second runs on another engine (Verifier).
inline constexpr std::string_view kVerifiedModel = "(verify)";
// Models without series of their own.
inline constexpr std::string_view kOtherModels = "(other)";

class ModelLabels {
 public:
  // `first`: as many of them as there may be have their places before all others, in whatever order models are called.
  explicit ModelLabels(size_t most, std::set<std::string, std::less<>> first = {});

  std::string_view Of(std::string_view model);

  // In the order of the alphabet. Takes no place: what is loaded and never called leaves it to others.
  std::vector<std::string> Own(const std::set<std::string>& loaded) const;

 private:
  const size_t most_;
  const std::set<std::string, std::less<>> first_;

  mutable Mutex mutex_;
  std::set<std::string, std::less<>> called_ ABSL_GUARDED_BY(mutex_);
  size_t kept_ ABSL_GUARDED_BY(mutex_);  // of first_, not called yet
};

}  // namespace rnnserve
