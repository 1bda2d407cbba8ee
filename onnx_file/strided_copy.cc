// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace rnnserve {

void CopyStrided(const std::byte* source, std::span<const int64_t> shape, std::span<const int64_t> strides,
                 size_t element_bytes, std::byte* target) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  if (shape.empty()) {
    std::memcpy(target, source, element_bytes);
    return;
  }
  const size_t last = shape.size() - 1;
  const auto row_elements = static_cast<size_t>(shape[last]);
  const bool packed = strides[last] == static_cast<int64_t>(element_bytes);
  std::vector<int64_t> index(last, 0);
  while (true) {
    if (packed) {
      std::memcpy(target, source, row_elements * element_bytes);
    } else {
      for (size_t k = 0; k < row_elements; ++k) {
        std::memcpy(target + k * element_bytes, source + static_cast<int64_t>(k) * strides[last], element_bytes);
      }
    }
    target += row_elements * element_bytes;
    size_t axis = last;
    while (axis > 0) {  // the next row, counting from the right
      --axis;
      if (++index[axis] < shape[axis]) {
        source += strides[axis];
        break;
      }
      source -= strides[axis] * (shape[axis] - 1);
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (last == 0) return;
  }
}

}  // namespace rnnserve
