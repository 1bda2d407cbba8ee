// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/packed_matrix.h"

#include <algorithm>

namespace rnnserve::cpu {

template <typename T>
PackedMatrix<T>::PackedMatrix(const T* source, size_t blocks, size_t units, size_t depth)
    : depth_(depth), lines_(blocks * PadToLine<T>(units) / kLine<T>), data_(lines_ * depth * kLine<T>) {
  T* target = data_.data();
  for (size_t first = 0; first < units; first += kLine<T>) {
    const size_t count = std::min(kLine<T>, units - first);
    for (size_t block = 0; block < blocks; ++block) {
      const T* const rows = source + (block * units + first) * depth;
      for (size_t k = 0; k < depth; ++k, target += kLine<T>) {
        for (size_t unit = 0; unit < count; ++unit) target[unit] = rows[unit * depth + k];
        std::fill(target + count, target + kLine<T>, T{0});
      }
    }
  }
}

template <typename T>
AlignedBuffer<T> PackVector(const T* source, size_t blocks, size_t units) {
  const size_t padded = PadToLine<T>(units);
  AlignedBuffer<T> target(blocks * padded);
  std::fill_n(target.data(), target.size(), T{0});
  for (size_t k = 0; k < blocks * units; ++k) {
    const size_t block = k / units, unit = k % units;
    target[(unit / kLine<T> * blocks + block) * kLine<T> + unit % kLine<T>] = source[k];
  }
  return target;
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
template AlignedBuffer<float> PackVector(const float*, size_t, size_t);
template AlignedBuffer<double> PackVector(const double*, size_t, size_t);
template AlignedBuffer<float> PadBlocks(const float*, size_t, size_t);
template AlignedBuffer<double> PadBlocks(const double*, size_t, size_t);

}  // namespace rnnserve::cpu
