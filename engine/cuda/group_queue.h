// SPDX-License-Identifier: Apache-2.0
// Runs the groups of one call one behind the other:
//
//   Program::GroupQueue queue(program, overlap);
//   for (...) queue.Run(slices, max_steps, spent);  // starts a group; finishes the one whose context it needs
//   queue.FinishAll();
//
// With a second context, the host stages group k - 1 out and group k + 1 in while the device computes group k, and the
// device copies both ways meanwhile:
//
//   context 1   in 0 | compute 0 | out 0   in 2 | compute 2 | out 2
//   context 2          in 1      | compute 1    | out 1
//
// The destructor waits for what was started.
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "engine/cuda/group.h"

namespace rnnserve::cuda {

class Program::GroupQueue {
 public:
  // `overlap` asks for a second context; the queue does without where none is free at once or its buffers do not fit.
  // The groups of such a queue are one block each.
  GroupQueue(const Program& program, bool overlap);

  void Run(std::span<const rnnserve_slice* const> slices, int64_t max_steps, std::span<const SpentSlot> spent);
  void FinishAll();

 private:
  void Start(std::span<const rnnserve_slice* const> slices, int64_t max_steps, std::span<const SpentSlot> spent);
  void FinishFirst();

  const Program& program_;
  const ContextLease first_;
  std::optional<ContextLease> second_;
  std::deque<Group> running_;  // started, in order; each on a context of its own
};

}  // namespace rnnserve::cuda
