// SPDX-License-Identifier: Apache-2.0
#include "server/store/slot_map.h"

#include <algorithm>

namespace rnnserve {

int SlotOf(std::string_view key) {
  if (const size_t open = key.find('{'); open != std::string_view::npos) {
    const size_t close = key.find('}', open);
    if (close != std::string_view::npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  unsigned crc = 0;
  for (const char byte : key) {
    crc ^= static_cast<unsigned>(static_cast<uint8_t>(byte)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = ((crc << 1) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0)) & 0xffffU;
  }
  return static_cast<int>(crc % kSlots);
}

SlotMap SlotMap::OfOne(const StoreHost& host) {
  SlotMap map;
  map.Set(0, kSlots - 1, host);
  return map;
}

void SlotMap::Set(int first, int last, const StoreHost& host) {
  if (by_slot_.empty()) by_slot_.assign(kSlots, -1);
  auto found = std::find(hosts_.begin(), hosts_.end(), host);
  if (found == hosts_.end()) found = hosts_.insert(hosts_.end(), host);
  std::fill(by_slot_.begin() + first, by_slot_.begin() + last + 1, static_cast<int16_t>(found - hosts_.begin()));
}

const StoreHost* SlotMap::Find(int slot) const {
  if (by_slot_.empty() || by_slot_[static_cast<size_t>(slot)] < 0) return nullptr;
  return &hosts_[static_cast<size_t>(by_slot_[static_cast<size_t>(slot)])];
}

}  // namespace rnnserve
