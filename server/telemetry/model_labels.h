// SPDX-License-Identifier: Apache-2.0
// Which models have series of their own: the first ones that work comes for, as many as there may be. All others count
// together, so that a scrape stays small however many models are loaded, come and go.
//
//   ModelLabels labels(32);
//   labels.Of("vad");   // "vad", or kOtherModels; the same each time, so that no counter ever goes back
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace rnnserve {

// What stands in parentheses cannot be a model's name. These are no models, and have series of their own besides.
// Operators that come inline or by fingerprint: callers are not bounded.
inline constexpr std::string_view kInlineModel = "(inline)";
// Whoever asks for a session of another run of the server does not say its model.
inline constexpr std::string_view kUnknownModel = "(unknown)";
// Models without series of their own.
inline constexpr std::string_view kOtherModels = "(other)";

class ModelLabels {
 public:
  explicit ModelLabels(size_t most) : most_(most) {}

  std::string_view Of(std::string_view model);

 private:
  const size_t most_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> models_;  // guarded by mutex_
};

}  // namespace rnnserve
