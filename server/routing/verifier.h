// SPDX-License-Identifier: Apache-2.0
// --verify_share: a share of the calls runs on a second engine as well, and the results are compared.
//
//   if (verifier.Sample()) ... run the call on both engines ...
//   verifier.Compare("vad", first, second);
//
// The largest difference so far is a metric, and a line in the log whenever it has doubled: a warning where engines of
// this data type should be closer. A sampled call is answered with the first engine's results once both have run.
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/core/call.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

// The largest difference of any two elements, relative above 1 and absolute below; infinity where only one is a number
// or the tensors are of different shapes.
double LargestDifference(const InferReply& first, const InferReply& second);

class Verifier {
 public:
  // `share` of the calls, from 0 to 1. `metrics`: where to count, null for nowhere; outlives the verifier.
  explicit Verifier(double share, Metrics* metrics = nullptr);

  // Whether to run this call twice. Every 1 / share-th one.
  bool Sample();

  // `model`: as metrics call it. `weights`: of the first run; the second one's are as given.
  void Compare(std::string_view model, const InferReply& first, const absl::StatusOr<InferReply>& second,
               WeightType weights = WeightType::kAsGiven);

  double largest() const;

 private:
  const double share_;
  std::atomic<int64_t> calls_ = 0;
  std::shared_ptr<Counter> agreed_, differed_, failed_;

  mutable Mutex mutex_;
  double largest_ ABSL_GUARDED_BY(mutex_) = 0;
  double logged_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rnnserve
