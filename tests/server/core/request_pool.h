// SPDX-License-Identifier: Apache-2.0
// Mixed requests for a core with real engines, each with the answer that it gets alone.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/core/core.h"
#include "tests/engine/support/random_operator.h"

namespace rnnserve {

// A core as the server has it, with engines cpu and onednn and two workers.
class RealCore {
 public:
  RealCore();
  ~RealCore();
  Core& operator*() { return *core_; }
  Core* operator->() { return core_.get(); }

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::unique_ptr<Core> core_;
};

// What a caller sends. The call's views point into `inputs`.
struct PooledRequest {
  std::vector<OwnedTensor> inputs;
  InferCall call;
  double tolerance = 0;  // 0: bit for bit
  bool has_nonfinite = false;
  InferReply alone;
};

// `per_operator` requests with other data for each of `operators` random operators. Every eighth is full of NaN and
// infinities.
std::vector<std::unique_ptr<PooledRequest>> MakeRequests(std::mt19937_64& random, Core& core, int operators,
                                                         int per_operator);

// Empty if `got` is what `request` gets alone.
std::string Difference(const PooledRequest& request, const InferReply& got);

// Waits for the answer.
absl::StatusOr<InferReply> InferAlone(Core& core, const InferCall& call);

}  // namespace rnnserve
