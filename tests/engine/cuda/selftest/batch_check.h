// SPDX-License-Identifier: Apache-2.0
// One ragged batch through the C ABI, set beside the host reference.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/cuda/selftest/plugin.h"

namespace rnnserve::selftest {

// A batch of ragged sequences, laid out as an operator's tensors would be.
struct Batch {
  int64_t rows = 1, steps = 1;
  bool batch_major = false;
  bool reverse = false;
  bool initial = false;
  bool chunked = false;  // two calls with the state kept on the device
  std::vector<int64_t> lengths;
};

struct Outcome {
  int code = RNNSERVE_OK;
  std::string error;
  double y = 0, state = 0;  // distances from the reference
  // ThresholdedRelu within rounding of its jump, where both values are right, or a cell that grows without bound.
  bool is_unstable = false;
};

Outcome RunBatch(Program& program, const Weights& weights, const Batch& batch, std::mt19937& random);

struct Tally {
  int runs = 0, failed = 0, skipped = 0;
  double y = 0, state = 0;
  std::string first_failure;
};

void Count(Tally& tally, const Outcome& outcome, double tolerance, const std::string& what);
// What a line about this batch says of it.
std::string Describe(const rnnserve_cell& cell, const Batch& batch);

}  // namespace rnnserve::selftest
