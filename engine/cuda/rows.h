// SPDX-License-Identifier: Apache-2.0
// Moving and converting rows: what a thread of the pack, unpack, gather and scatter kernels does with elements first,
// first + step, ... of one row. In a host build the tests do the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/element.h"
#include "engine/cuda/packing.h"

namespace rnnserve::cuda {

template <typename From, typename To>
RNNSERVE_HOST_DEVICE void Convert(const From& from, To& to) {
  Narrow(Widen(from), to);
}

// Which elements of a row one thread takes.
struct RowShare {
  int64_t first;
  int64_t step;
};

template <typename From, typename To>
RNNSERVE_HOST_DEVICE void PackRow(const From* staged, To* packed, const Walk* walks, const int64_t* offsets, int steps,
                                  int64_t row, int64_t width, RowShare share) {
  const From* source = staged + StagedOffset(walks, offsets, steps, row);
  for (int64_t k = share.first; k < width; k += share.step) Convert(source[k], packed[row * width + k]);
}

template <typename From, typename To>
RNNSERVE_HOST_DEVICE void UnpackRow(const From* packed, To* staged, const Walk* walks, const int64_t* offsets,
                                    int steps, int64_t row, int64_t width, RowShare share) {
  const int64_t at = StagedOffset(walks, offsets, steps, row);
  if (at < 0) return;
  for (int64_t k = share.first; k < width; k += share.step) Convert(packed[row * width + k], staged[at + k]);
}

// `slot` holds h, then c; null: zeros. c may be null.
template <typename Slot, typename Packed>
RNNSERVE_HOST_DEVICE void GatherRow(const Slot* slot, Packed* h, Packed* c, int64_t row, int64_t hidden,
                                    RowShare share) {
  for (int64_t k = share.first; k < hidden; k += share.step) {
    const int64_t at = row * hidden + k;
    Narrow(slot == nullptr ? Slot(0) : slot[k], h[at]);
    if (c != nullptr) Narrow(slot == nullptr ? Slot(0) : slot[hidden + k], c[at]);
  }
}

template <typename Packed, typename Slot>
RNNSERVE_HOST_DEVICE void ScatterRow(const Packed* h, const Packed* c, Slot* slot, int64_t row, int64_t hidden,
                                     RowShare share) {
  for (int64_t k = share.first; k < hidden; k += share.step) {
    const int64_t at = row * hidden + k;
    slot[k] = Widen(h[at]);
    if (c != nullptr) slot[hidden + k] = Widen(c[at]);
  }
}

class SlotPool;

// The memory of a deleted state, to be wiped.
struct SpentSlot {
  std::byte* at;  // on 8 bytes
  size_t bytes;   // a multiple of 8
  SlotPool* pool;
};

RNNSERVE_HOST_DEVICE void WipeSlot(const SpentSlot& slot, RowShare share) {
  auto* words = reinterpret_cast<uint64_t*>(slot.at);
  const auto count = static_cast<int64_t>(slot.bytes / sizeof(uint64_t));
  for (int64_t k = share.first; k < count; k += share.step) words[k] = 0;
}

}  // namespace rnnserve::cuda
