// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/packed_matrix.h"

#include <algorithm>

namespace rnnserve::cpu {

template <typename T>
PackedMatrix<T>::PackedMatrix(const T* source, size_t blocks, size_t units, size_t depth)
    : depth_(depth), columns_(blocks * PadToLine<T>(units)), data_(columns_ * depth) {
  std::fill_n(data_.data(), data_.size(), T{0});
  const size_t padded = PadToLine<T>(units);
  for (size_t row = 0; row < blocks * units; ++row) {
    const size_t column = row / units * padded + row % units;
    const size_t first = column / kPanel<T> * kPanel<T>;
    const size_t width = std::min(kPanel<T>, columns_ - first);
    T* target = data_.data() + first * depth + (column - first);
    for (size_t k = 0; k < depth; ++k) target[k * width] = source[row * depth + k];
  }
}

template <typename T>
AlignedBuffer<T> PadBlocks(const T* source, size_t blocks, size_t units) {
  const size_t padded = PadToLine<T>(units);
  AlignedBuffer<T> target(blocks * padded);
  std::fill_n(target.data(), target.size(), T{0});
  for (size_t block = 0; block < blocks; ++block) {
    std::copy_n(source + block * units, units, target.data() + block * padded);
  }
  return target;
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template AlignedBuffer<float> PadBlocks(const float*, size_t, size_t);
template AlignedBuffer<double> PadBlocks(const double*, size_t, size_t);

}  // namespace rnnserve::cpu
