// SPDX-License-Identifier: Apache-2.0
// Tensors cut and joined along their axis of steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/cpp/tensor.h"

namespace rnnserve::rnnctl {

// Steps from, ..., from + count - 1 of a whole tensor; within bounds.
client::Tensor SliceSteps(const client::Tensor& tensor, size_t axis, int64_t from, int64_t count);

// The pieces one behind the other; at least one, all of one type, and of one shape but for that axis.
client::Tensor JoinSteps(const std::vector<client::Tensor>& pieces, size_t axis);

}  // namespace rnnserve::rnnctl
