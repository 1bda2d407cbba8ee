// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

// What comparing has seen so far, for a suite's closing line.
struct Tally {
  int64_t values = 0;
  double worst = 0;  // |got - want| / max(1, |want|)
};

// |got - want| <= tolerance * max(1, |want|) for every value; NaN equals NaN, infinities equal themselves.
testing::AssertionResult ValuesNear(std::span<const double> got, std::span<const double> want, double tolerance,
                                    Tally* tally = nullptr);
// The same for tensors; type, shape and name must be equal.
testing::AssertionResult TensorsNear(const OwnedTensor& got, const OwnedTensor& want, double tolerance,
                                     Tally* tally = nullptr);
// Bit for bit.
testing::AssertionResult TensorsIdentical(const OwnedTensor& got, const OwnedTensor& want);

}  // namespace rnnserve
