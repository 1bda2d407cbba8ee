// SPDX-License-Identifier: Apache-2.0
// What W and R are kept as in a program. Biases, peepholes, states, sums and functions stay in the compute type.
#pragma once

#include <cstdint>
#include <string_view>

namespace rnnserve {

enum class WeightType : int32_t {
  kAsGiven = 0,
  kFloat16 = 1,
  kBFloat16 = 2,
  kInt8 = 3,  // whole numbers of -127 to 127 with a scale for each unit of each gate: its largest weight is 127
};

inline constexpr WeightType kNarrowWeights[] = {WeightType::kFloat16, WeightType::kBFloat16, WeightType::kInt8};

// "AS_GIVEN", "FLOAT16", "BFLOAT16", "INT8"; "" for anything else.
constexpr std::string_view WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kAsGiven:
      return "AS_GIVEN";
    case WeightType::kFloat16:
      return "FLOAT16";
    case WeightType::kBFloat16:
      return "BFLOAT16";
    case WeightType::kInt8:
      return "INT8";
  }
  return "";
}

}  // namespace rnnserve
