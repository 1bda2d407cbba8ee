// SPDX-License-Identifier: Apache-2.0
#include "server/models/known_plans.h"

#include <algorithm>
#include <utility>

namespace rnnserve {
namespace {

constexpr size_t kMost = 4;
// A plan has more for each; the memory of the plans is counted with the model's own (kBytesPerModel).
constexpr size_t kMostRows = 8, kMostOutputs = 4;

}  // namespace

std::optional<RunPlan> KnownPlans::Find(std::span<const NamedTensor> inputs, std::span<const std::string> wanted,
                                        const RunOptions& options) {
  if (inputs.size() != 1) return std::nullopt;
  const TensorView& tensor = inputs.front().tensor;
  const MutexLock lock(mutex_);
  for (const Known& known : known_) {
    if (known.bytes != tensor.data.size() || known.type != tensor.type || known.shape != tensor.shape) continue;
    if (known.input != inputs.front().name || !(known.options == options)) continue;
    if (!std::ranges::equal(known.wanted, wanted)) continue;
    std::optional<RunPlan> plan(known.plan);
    plan->x = tensor;
    return plan;
  }
  return std::nullopt;
}

void KnownPlans::Keep(std::span<const NamedTensor> inputs, std::span<const std::string> wanted,
                      const RunOptions& options, const RunPlan& plan) {
  // A pipeline's plan has more than x of the request.
  if (inputs.size() != 1 || !plan.data.empty()) return;
  if (plan.lengths.size() > kMostRows || plan.outputs.size() > kMostOutputs) return;
  const NamedTensor& input = inputs.front();
  Known known = {.input = input.name,
                 .type = input.tensor.type,
                 .shape = input.tensor.shape,
                 .bytes = input.tensor.data.size(),
                 .wanted = {wanted.begin(), wanted.end()},
                 .options = options,
                 .plan = plan};
  known.plan.x = {};
  const MutexLock lock(mutex_);
  if (known_.size() < kMost) return known_.push_back(std::move(known));
  known_[next_] = std::move(known);
  next_ = (next_ + 1) % kMost;
}

}  // namespace rnnserve
