// SPDX-License-Identifier: Apache-2.0
// Which node has a key: the slots of a cluster. One Redis alone is a cluster of one node.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "server/store/store_address.h"

namespace rnnserve {

inline constexpr int kSlots = 16384;

// CRC16 (XMODEM) of what stands in the first braces, else of all, modulo kSlots: as the cluster's specification says.
int SlotOf(std::string_view key);

class SlotMap {
 public:
  SlotMap() = default;  // knows no node
  static SlotMap OfOne(const StoreHost& host);

  // `first` to `last` of 0 to kSlots - 1.
  void Set(int first, int last, const StoreHost& host);
  // Null: no node is known.
  const StoreHost* Find(int slot) const;
  const std::vector<StoreHost>& hosts() const { return hosts_; }
  bool operator==(const SlotMap&) const = default;

 private:
  std::vector<StoreHost> hosts_;
  std::vector<int16_t> by_slot_;  // index into hosts_, -1: none; empty: none of all
};

}  // namespace rnnserve
