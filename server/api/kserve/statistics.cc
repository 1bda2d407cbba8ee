// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/statistics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace rnnserve::kserve {
namespace {

void SetDuration(uint64_t count, absl::Duration sum, inference::StatisticDuration& message) {
  message.set_count(count);
  message.set_ns(static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(sum), 0)));
}

}  // namespace

void Statistics::Add(const LoadedModel& model, const AnsweredInfer& answered) {
  const uint64_t now_ms = static_cast<uint64_t>(absl::ToUnixMillis(absl::Now()));
  const MutexLock lock(mutex_);
  if (sums_.size() >= kMaxModels && !sums_.contains(KeyOf(model))) sums_.erase(sums_.begin());
  Sum& sum = sums_[KeyOf(model)];
  if (!answered.ok) {
    ++sum.failed;
    sum.failure += answered.took;
    return;
  }
  ++sum.succeeded;
  sum.success += answered.took;
  sum.queue += answered.queue;
  sum.compute += answered.compute;
  sum.executions += 1.0 / static_cast<double>(std::max<int64_t>(answered.largest_batch, 1));
  sum.last_ms = now_ms;
}

void Statistics::Encode(const LoadedModel& model, inference::ModelStatistics& message) const {
  message.set_name(model.name);
  message.set_version(absl::StrCat(model.version));
  Sum sum;
  {
    const MutexLock lock(mutex_);
    if (const auto found = sums_.find(KeyOf(model)); found != sums_.end()) sum = found->second;
  }
  message.set_last_inference(sum.last_ms);
  message.set_inference_count(sum.succeeded);
  message.set_execution_count(static_cast<uint64_t>(std::ceil(sum.executions)));
  inference::InferStatistics& stats = *message.mutable_inference_stats();
  SetDuration(sum.succeeded, sum.success, *stats.mutable_success());
  SetDuration(sum.failed, sum.failure, *stats.mutable_fail());
  SetDuration(sum.succeeded, sum.queue, *stats.mutable_queue());
  SetDuration(sum.succeeded, absl::ZeroDuration(), *stats.mutable_compute_input());
  SetDuration(sum.succeeded, sum.compute, *stats.mutable_compute_infer());
  SetDuration(sum.succeeded, absl::ZeroDuration(), *stats.mutable_compute_output());
  stats.mutable_cache_hit();
  stats.mutable_cache_miss();
}

}  // namespace rnnserve::kserve
