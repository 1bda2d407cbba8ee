// SPDX-License-Identifier: Apache-2.0
// The checks that every tensor from outside passes before code reads or allocates by its shape.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/op/op_spec.h"

namespace rnnserve {

// One axis of an expected shape: "4*H" and its size, or no size where any will do.
struct ExpectedAxis {
  std::string_view symbol;
  std::optional<int64_t> size = {};
};

const NamedTensor* FindInput(std::span<const NamedTensor> inputs, std::string_view name);

// `name` is a floating tensor of `type`.
absl::Status CheckFloatingType(const NamedTensor& input, DataType type, std::string_view type_giver);

// No negative axis, bytes countable in 63 bits, rank and axes as expected, and as many bytes of data as the shape says.
// `owner` ("LSTM-14") and `remark` go into the text.
absl::Status CheckShape(const NamedTensor& input, std::span<const ExpectedAxis> expected, std::string_view owner,
                        std::string_view remark);

// Data with no elements (I = 0 or T = 0) costs a caller nothing, whatever its other axes say; rows and steps still cost
// the server. `input` has none: refused above 2^20 rows times steps.
absl::Status CheckWithoutData(std::string_view input, int64_t rows, int64_t steps);

}  // namespace rnnserve
