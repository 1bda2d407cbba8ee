// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/steps.h"

#include <functional>
#include <numeric>
#include <string_view>

namespace rnnserve::rnnctl {
namespace {

int64_t Product(Shape::const_iterator begin, Shape::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

// Bytes of one step of one row, and how many rows lie before the axis.
struct Strides {
  size_t outer, step;
};

Strides StridesOf(const client::Tensor& tensor, size_t axis) {
  const auto at = tensor.shape.begin() + static_cast<std::ptrdiff_t>(axis);
  return {static_cast<size_t>(Product(tensor.shape.begin(), at)),
          static_cast<size_t>(Product(at + 1, tensor.shape.end())) * ByteSize(tensor.type)};
}

}  // namespace

client::Tensor SliceSteps(const client::Tensor& tensor, size_t axis, int64_t from, int64_t count) {
  const Strides strides = StridesOf(tensor, axis);
  const size_t whole = static_cast<size_t>(tensor.shape[axis]) * strides.step;
  client::Tensor piece{tensor.name, tensor.type, tensor.shape, {}};
  piece.shape[axis] = count;
  for (size_t row = 0; row < strides.outer; ++row) {
    piece.bytes +=
        std::string_view(tensor.bytes)
            .substr(row * whole + static_cast<size_t>(from) * strides.step, static_cast<size_t>(count) * strides.step);
  }
  return piece;
}

client::Tensor JoinSteps(const std::vector<client::Tensor>& pieces, size_t axis) {
  client::Tensor joined{pieces[0].name, pieces[0].type, pieces[0].shape, {}};
  joined.shape[axis] = 0;
  for (const client::Tensor& piece : pieces) joined.shape[axis] += piece.shape[axis];
  const Strides strides = StridesOf(joined, axis);
  for (size_t row = 0; row < strides.outer; ++row) {
    for (const client::Tensor& piece : pieces) {
      const size_t bytes = static_cast<size_t>(piece.shape[axis]) * strides.step;
      joined.bytes += std::string_view(piece.bytes).substr(row * bytes, bytes);
    }
  }
  return joined;
}

}  // namespace rnnserve::rnnctl
