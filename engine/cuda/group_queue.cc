// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/group_queue.h"

#include "engine/cuda/error.h"

namespace rnnserve::cuda {
namespace {

// Null: the call goes on with one context.
std::unique_ptr<ExecutionContext> TrySecond(Device& device) {
  try {
    return device.TryTakeContext();
  } catch (const Error& refused) {
    if (!refused.is_short_of_memory()) throw;
    return nullptr;
  }
}

}  // namespace

Program::GroupQueue::GroupQueue(const Program& program, bool overlap) : program_(program), first_(program.device_) {
  if (!overlap) return;
  if (auto context = TrySecond(program.device_)) second_.emplace(program.device_, std::move(context));
}

void Program::GroupQueue::Run(std::span<const rnnserve_slice* const> slices, int64_t max_steps,
                              std::span<const SpentSlot> spent) {
  const size_t contexts = second_ ? 2 : 1;
  if (running_.size() == contexts) FinishFirst();
  try {
    Start(slices, max_steps, spent);
  } catch (const Error& refused) {
    if (!second_ || !refused.is_short_of_memory()) throw;
    FinishAll();
    second_->Destroy();  // the first may need all its memory
    second_.reset();
    first_.context().Synchronize();
    Start(slices, max_steps, spent);
  }
  running_.back().StartOutputs();
}

void Program::GroupQueue::Start(std::span<const rnnserve_slice* const> slices, int64_t max_steps,
                                std::span<const SpentSlot> spent) {
  const bool first_is_taken = !running_.empty() && &running_.front().context() == &first_.context();
  ExecutionContext& context = first_is_taken ? second_->context() : first_.context();
  running_.emplace_back(program_, context, slices, max_steps, spent);
  try {
    running_.back().Start();
  } catch (...) {
    running_.pop_back();
    throw;
  }
}

void Program::GroupQueue::FinishFirst() {
  Group& group = running_.front();
  group.Finish();
  while (group.more()) {
    group.Start();
    group.StartOutputs();
    group.Finish();
  }
  running_.pop_front();
}

void Program::GroupQueue::FinishAll() {
  while (!running_.empty()) FinishFirst();
}

}  // namespace rnnserve::cuda
