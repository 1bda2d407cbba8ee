// SPDX-License-Identifier: Apache-2.0
// Plans of a model's last requests: the next request of the same shape needs none of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/op/stack.h"

namespace rnnserve {

// All calls may come from any thread.
class KnownPlans {
 public:
  // As PlanRun gives it, checked as the plan that was kept. Nothing: not known.
  std::optional<RunPlan> Find(std::span<const NamedTensor> inputs, std::span<const std::string> wanted,
                              const RunOptions& options);
  // Keeps the plan if it follows from shapes alone, that is, of requests that bring one tensor.
  void Keep(std::span<const NamedTensor> inputs, std::span<const std::string> wanted, const RunOptions& options,
            const RunPlan& plan);

 private:
  struct Known {
    std::string input;
    DataType type = DataType::kFloat;
    Shape shape;
    size_t bytes = 0;
    std::vector<std::string> wanted;
    RunOptions options;
    RunPlan plan;  // without x
  };

  Mutex mutex_;
  std::vector<Known> known_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // to be replaced
};

}  // namespace rnnserve
