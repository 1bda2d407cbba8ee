// SPDX-License-Identifier: Apache-2.0
// Weights as programs with narrow weights keep them, in arithmetic of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/cell.h"
#include "engine/float16.h"
#include "engine/weight_type.h"

namespace rnnserve {

// Rows of `depth` weights.
template <typename T>
void RoundWeights(WeightType type, size_t depth, std::vector<T>& weights) {
  for (size_t first = 0; first < weights.size(); first += depth) {
    double largest = 0;
    for (size_t k = first; k < first + depth; ++k) {
      largest = std::max(largest, std::fabs(static_cast<double>(weights[k])));
    }
    for (size_t k = first; k < first + depth; ++k) {
      const auto weight = static_cast<float>(weights[k]);
      if (type == WeightType::kFloat16) weights[k] = static_cast<T>(FloatFromHalf(HalfFromFloat(weight)));
      if (type == WeightType::kBFloat16) weights[k] = static_cast<T>(FloatFromBFloat16(BFloat16FromFloat(weight)));
      if (type != WeightType::kInt8 || largest == 0) continue;
      weights[k] = static_cast<T>(std::nearbyint(double{weight} / largest * 127) * largest / 127);
    }
  }
}

// W and R.
template <typename T>
void RoundWeights(WeightType type, const CellSpec& spec, CellWeights<T>& weights) {
  if (spec.input_size > 0) RoundWeights(type, static_cast<size_t>(spec.input_size), weights.w);
  RoundWeights(type, static_cast<size_t>(spec.hidden_size), weights.r);
}

}  // namespace rnnserve
