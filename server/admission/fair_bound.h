// SPDX-License-Identifier: Apache-2.0
// A bound that callers share and none can take whole: the last eighth is reserved for callers that hold nothing, or
// little with what they ask for. A caller that floods the server is refused while the others are still admitted.
//
//   FairBound bound(4096);
//   if (bound.Fits(caller, 1)) bound.Take(caller, 1);
//   ...
//   bound.Release(caller, 1);
//
// A caller is a tenant or, where there are none, a connection. Bounds below eight reserve nothing. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"

namespace rnnserve {

class FairBound {
 public:
  explicit FairBound(int64_t most) : most_(most), open_(most - most / kKeptShare), little_(most / kLittleShare) {}
  FairBound(const FairBound&) = delete;
  FairBound& operator=(const FairBound&) = delete;

  // Whether `caller` may take `amount` more. While nothing is taken any amount fits: it would never fit otherwise.
  bool Fits(uint64_t caller, int64_t amount) const {
    if (used_ == 0 || amount <= open_ - used_) return true;
    if (amount > most_ - used_) return false;
    const int64_t held = this->held(caller);
    return held == 0 || amount <= little_ - held;
  }

  // Whether it fits or not.
  void Take(uint64_t caller, int64_t amount) {
    if (amount == 0) return;
    EntryOf(caller).second += amount;
    used_ += amount;
  }

  // No more than has been taken.
  void Release(uint64_t caller, int64_t amount) {
    if (amount == 0) return;
    Entry& entry = EntryOf(caller);
    if ((entry.second -= amount) == 0) {
      held_.erase(caller);
      last_ = nullptr;
    }
    used_ -= amount;
  }

  int64_t most() const { return most_; }
  int64_t used() const { return used_; }
  int64_t held(uint64_t caller) const {
    const auto entry = held_.find(caller);
    return entry == held_.end() ? 0 : entry->second;
  }

 private:
  using Held = absl::flat_hash_map<uint64_t, int64_t>;
  using Entry = Held::value_type;

  // Made if there is none.
  Entry& EntryOf(uint64_t caller) {
    if (last_ == nullptr || last_->first != caller) last_ = &*held_.try_emplace(caller).first;
    return *last_;
  }

  static constexpr int64_t kKeptShare = 8;     // one part of so many is kept,
  static constexpr int64_t kLittleShare = 64;  // and one of so many is little

  int64_t most_, open_, little_;
  int64_t used_ = 0;
  Held held_;              // only callers that hold something
  Entry* last_ = nullptr;  // used last: only making an entry moves others, and that one is last then
};

}  // namespace rnnserve
