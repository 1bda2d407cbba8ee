// SPDX-License-Identifier: Apache-2.0
// What ModelStatistics tells: what this protocol's callers have asked of each model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "inference/grpc_service.pb.h"
#include "server/models/model_store.h"

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
  void Add(const LoadedModel& model, const AnsweredInfer& answered);
  // Zeros of a model that has not been called.
  void Encode(const LoadedModel& model, inference::ModelStatistics& message) const;

 private:
  struct Sum {
    uint64_t succeeded = 0, failed = 0;
    absl::Duration success, failure, queue, compute;
    double executions = 0;
    uint64_t last_ms = 0;
  };
  // Owner, name and version: two tenants may give their models one name.
  using Key = std::tuple<std::string, std::string, int64_t>;
  static Key KeyOf(const LoadedModel& model) { return {model.tenant, model.name, model.version}; }
  // Bounds the models that are counted; names that callers make up are not.
  static constexpr size_t kMaxModels = 4096;

  mutable Mutex mutex_;
  std::map<Key, Sum> sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve::kserve
