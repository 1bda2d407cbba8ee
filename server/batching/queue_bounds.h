// SPDX-License-Identifier: Apache-2.0
// What a scheduler owns, waiting or running, and how much more it takes: sequences and the bytes that their submissions
// hold, shared among tenants (FairBound). Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "server/admission/fair_bound.h"
#include "server/batching/scheduler.h"

namespace rnnserve {

class QueueBounds {
 public:
  QueueBounds(int64_t max_sequences, int64_t max_bytes) : sequences_(max_sequences), bytes_(max_bytes) {}

  // OK if `submission` fits, goes on, or nothing is owned: so one of any size runs when it comes alone. Else
  // RESOURCE_EXHAUSTED, yet without a retry delay.
  absl::Status Check(const Submission& submission) const;

  // Whether they fit or not; releases no more than has been taken.
  void Take(uint64_t tenant, int64_t sequences, int64_t bytes);
  void Release(uint64_t tenant, int64_t sequences, int64_t bytes);

  QueueLoad load() const { return {sequences_.used(), bytes_.used()}; }

 private:
  FairBound sequences_;
  FairBound bytes_;
};

}  // namespace rnnserve
