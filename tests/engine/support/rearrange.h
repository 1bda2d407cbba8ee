// SPDX-License-Identifier: Apache-2.0
// The rearrangements of tensors under which results must not change.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/support/owned_tensor.h"
#include "tests/engine/support/random_operator.h"

namespace rnnserve {

namespace engine_suite {

// One row of a tensor whose `axis` counts rows.
inline OwnedTensor SelectRow(const OwnedTensor& tensor, size_t axis, int64_t row) {
  std::vector<size_t> order(tensor.shape.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::swap(order[0], order[axis]);  // its own inverse
  OwnedTensor first = Transposed(tensor, order);
  const size_t bytes = first.bytes.size() / static_cast<size_t>(first.shape[0]);
  const auto begin = first.bytes.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<size_t>(row));
  first.bytes = std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  first.shape[0] = 1;
  return Transposed(first, order);
}

// Index of the rows' axis, by the tensor's ONNX name, in layout 0.
inline size_t RowAxis(const std::string& name) { return name == "Y" ? 2 : name == "sequence_lens" ? 0 : 1; }

// Which steps are read: X of layout 0 with everything past each row's length set to `value`.
inline void FillPadding(RandomOperator& op, double value) {
  OwnedTensor* x = FindTensor(op.inputs, "X");
  std::vector<double> values = x->Values();
  for (int64_t t = 0; t < op.steps; ++t) {
    for (int64_t n = 0; n < op.rows; ++n) {
      for (int64_t i = 0; t >= op.lengths[static_cast<size_t>(n)] && i < op.input_size; ++i) {
        values[static_cast<size_t>((t * op.rows + n) * op.input_size + i)] = value;
      }
    }
  }
  *x = MakeTensor("X", x->type, x->shape, values);
}

// Steps of each row turned around within its length; tensor [T, ..., N at `row_axis`, ...] of layout 0.
inline OwnedTensor ReversedWithinLength(const OwnedTensor& tensor, size_t row_axis,
                                        const std::vector<int64_t>& lengths) {
  std::vector<double> values = tensor.Values(), result = values;
  int64_t outer = 1, inner = 1;  // axes between time and rows, axes after rows
  for (size_t a = 1; a < row_axis; ++a) outer *= tensor.shape[a];
  for (size_t a = row_axis + 1; a < tensor.shape.size(); ++a) inner *= tensor.shape[a];
  const int64_t rows = tensor.shape[row_axis];
  const auto at = [&](int64_t t, int64_t o, int64_t n, int64_t i) {
    return static_cast<size_t>(((t * outer + o) * rows + n) * inner + i);
  };
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t length = lengths[static_cast<size_t>(n)];
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) result[at(t, o, n, i)] = values[at(length - 1 - t, o, n, i)];
      }
    }
  }
  return MakeTensor(tensor.name, tensor.type, tensor.shape, result);
}

// Direction d of a tensor whose `axis` counts directions.
inline OwnedTensor SelectDirection(const OwnedTensor& tensor, size_t axis, int64_t d) {
  return SelectRow(tensor, axis, d);
}

inline Pinned OnnxLayout0() {
  Pinned pinned;
  pinned.openvino = false;
  pinned.layout = 0;
  return pinned;
}

}  // namespace engine_suite

}  // namespace rnnserve
