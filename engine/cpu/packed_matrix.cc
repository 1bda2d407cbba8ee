// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/cpu/dot_product.h"
#include "engine/cpu/tile_product.h"
#include "engine/float16.h"
#include "engine/instruction_set.h"

namespace rnnserve::cpu {
namespace {

// Larger weights of one row are read no faster term by term, and those of H = 1024 up to 1.4 times as slowly.
constexpr size_t kOwnCache = size_t{1} << 20;

}  // namespace

// AMD's cores with AVX-512 read one stream faster than several. A Zen 3 (AVX2) and Intel's cores do not; and where rows
// take one line of a group at a time, the lines between are fetched as well: 12 rows of H = 256 took 1.4 times as long
// on a Xeon held to AVX2, two to four rows 1.1 to 1.4 times on a Zen 3.
size_t GroupHere([[maybe_unused]] size_t lines) {
#if defined(__x86_64__)
  const bool is_wide = MaxInstructionSet() >= InstructionSet::kAvx512 && __builtin_cpu_supports("avx512f");
  if (is_wide && !__builtin_cpu_is("intel")) return lines;
#endif
  return 1;
}

// `encode` makes a weight of a row of the source into what is kept.
template <typename T>
template <typename Stored, typename Encode>
void PackedMatrix<T>::Pack(const T* source, size_t blocks, size_t units, const Encode& encode) {
  constexpr size_t kPlaces[] = {0, 2, 1, 3};  // in a word of four
  const size_t together = in_word();
  data_.Grow(lines_ * line_size() * sizeof(Stored));
  auto* const all = reinterpret_cast<Stored*>(data_.data());
  std::fill_n(all, lines_ * line_size(), Stored{0});
  size_t line = 0;
  for (size_t first = 0; first < units; first += kLine<T>) {
    const size_t count = std::min(kLine<T>, units - first);
    for (size_t block = 0; block < blocks; ++block, ++line) {
      Stored* const target = all + offset(line);
      const size_t row = block * units + first;
      for (size_t k = 0; k < depth_; ++k) {
        for (size_t unit = 0; unit < count; ++unit) {
          const size_t place = together == 4 ? kPlaces[k % 4] : k % together;
          target[(k / together * term_stride() + unit) * together + place] =
              encode(row + unit, source[(row + unit) * depth_ + k]);
        }
      }
    }
  }
}

template <typename T>
void PackedMatrix<T>::PackInt8(const T* source, size_t blocks, size_t units) {
  constexpr T kMost = 127;
  std::vector<T> scales(blocks * units);
  for (size_t row = 0; row < scales.size(); ++row) {
    for (size_t k = 0; k < depth_; ++k) scales[row] = std::max(scales[row], std::fabs(source[row * depth_ + k]));
    scales[row] /= kMost;
  }
  // A row of zeros, or of weights too small for a scale, is zero.
  const uint8_t added = HasDotProduct(WeightType::kInt8) ? 128 : 0;
  Pack<uint8_t>(source, blocks, units, [&](size_t row, T weight) {
    const T whole = scales[row] == 0 ? 0 : std::clamp(std::nearbyint(weight / scales[row]), -kMost, kMost);
    return static_cast<uint8_t>(static_cast<int>(whole) + added);
  });
  scales_ = PackVector(scales.data(), blocks, units);
}

template <typename T>
void PackedMatrix<T>::PackParts(const T* source, size_t blocks, size_t units) {
  const auto has_parts = [](T weight) { return std::fabs(weight) < kMostInParts; };
  if (!std::all_of(source, source + blocks * units * depth_, has_parts)) return;
  const size_t line_bytes = kBrainParts * TilesOf(depth_) * kTileBytes;
  parts_.Grow(lines_ * line_bytes);
  std::fill_n(parts_.data(), parts_.size(), std::byte{0});
  for (size_t row = 0; row < blocks * units; ++row) {
    const size_t block = row / units, unit = row % units;
    std::byte* const line = parts_.data() + (unit / kLine<T> * blocks + block) * line_bytes;
    const T* const weights = source + row * depth_;
    for (size_t k = 0; k < depth_; k += 2) {
      const auto even = InParts(static_cast<float>(weights[k]));
      const auto odd = InParts(k + 1 < depth_ ? static_cast<float>(weights[k + 1]) : 0);
      std::byte* word = line + k / kTileTerms * kBrainParts * kTileBytes + k % kTileTerms / 2 * kLineBytes +
                        unit % kLine<T> * 2 * sizeof(uint16_t);
      for (size_t p = 0; p < kBrainParts; ++p, word += kTileBytes) {
        std::memcpy(word, &even[p], sizeof even[p]);
        std::memcpy(word + sizeof even[p], &odd[p], sizeof odd[p]);
      }
    }
  }
}

template <typename T>
PackedMatrix<T>::PackedMatrix(const T* source, size_t blocks, size_t units, size_t depth, WeightForm form,
                              size_t together)
    : form_(form), depth_(depth), lines_(blocks * PadToLine<T>(units) / kLine<T>) {
  const size_t padded_to = IsByTiles(form.type) ? kTileTerms : in_word();  // terms of a line
  line_size_ = (depth + padded_to - 1) / padded_to * padded_to * kLine<T>;
  const bool is_small = lines_ * line_size_ * sizeof(T) <= kOwnCache;
  if (is_small && form.type == WeightType::kAsGiven && lines_ % together == 0) together_ = together;
  if (form.has_parts()) PackParts(source, blocks, units);
  const auto narrow = [](T weight) { return static_cast<float>(weight); };
  switch (form.type) {
    case WeightType::kAsGiven:
      Pack<T>(source, blocks, units, [](size_t, T weight) { return weight; });
      break;
    case WeightType::kFloat16:
      Pack<uint16_t>(source, blocks, units, [&](size_t, T weight) { return HalfFromFloat(narrow(weight)); });
      break;
    case WeightType::kBFloat16:
      Pack<uint16_t>(source, blocks, units, [&](size_t, T weight) { return BFloat16FromFloat(narrow(weight)); });
      break;
    case WeightType::kInt8:
      PackInt8(source, blocks, units);
      break;
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
