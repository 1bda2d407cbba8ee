// SPDX-License-Identifier: Apache-2.0
// What ModelStatistics tells: what this protocol's callers have asked of each model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "inference/grpc_service.pb.h"

namespace rnnserve::kserve {

struct AnsweredInfer {
  bool ok = true;
  absl::Duration took;  // since the request came
  absl::Duration queue = {};
  absl::Duration compute = {};
  int64_t largest_batch = 1;  // sequences that ran together, at most
};

class Statistics {
 public:
  void Add(const std::string& model, int64_t version, const AnsweredInfer& answered);
  // Zeros of a model that has not been called.
  void Encode(const std::string& model, int64_t version, inference::ModelStatistics& message) const;

 private:
  struct Sum {
    uint64_t succeeded = 0, failed = 0;
    absl::Duration success, failure, queue, compute;
    double executions = 0;
    uint64_t last_ms = 0;
  };
  // Of models that have been found: names that callers make up are not counted.
  static constexpr size_t kMaxModels = 4096;

  mutable Mutex mutex_;
  std::map<std::pair<std::string, int64_t>, Sum> sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve::kserve
