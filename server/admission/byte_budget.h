// SPDX-License-Identifier: Apache-2.0
// Bounds the memory that requests hold together, and what one caller may take of it (FairBound).
//
//   std::optional<ByteBudget::Share> share = budget.Take(caller, bytes);   // nullopt: full
//   ...                                                                    // returned when `share` is destroyed
//
// Thread-safe; the budget outlives its shares.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "server/admission/fair_bound.h"
#include "server/admission/memory_watch.h"

namespace rnnserve {

class ByteBudget {
 public:
  class Share {
   public:
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          caller_(other.caller_),
          bytes_(other.bytes_),
          copies_(other.copies_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(caller_, other.caller_);
      std::swap(bytes_, other.bytes_);
      std::swap(copies_, other.copies_);
      return *this;
    }
    ~Share() { ShrinkTo(0); }

    // Takes over `other`, to be returned with this one, if it is the same caller's and as far.
    bool Join(Share& other) {
      if (budget_ != other.budget_ || caller_ != other.caller_ || copies_ != other.copies_) return false;
      bytes_ += std::exchange(other.bytes_, 0);
      other.budget_ = nullptr;
      return true;
    }
    // Returns all but `bytes`.
    void ShrinkTo(int64_t bytes) {
      if (budget_ == nullptr || bytes >= bytes_) return;
      budget_->Release(caller_, bytes_ - bytes, copies_);
      bytes_ = bytes;
    }
    // The share's bytes have been allocated and written: first the tensors, then what they are encoded into. The
    // process has them now, so MemoryWatch no longer counts them as promised.
    void Took() {
      if (budget_ == nullptr || copies_ == 0) return;
      --copies_;
      if (budget_->memory_ != nullptr) budget_->memory_->Took(bytes_);
    }

   private:
    friend class ByteBudget;
    Share(ByteBudget* budget, uint64_t caller, int64_t bytes) : budget_(budget), caller_(caller), bytes_(bytes) {}
    ByteBudget* budget_;
    uint64_t caller_;
    int64_t bytes_;
    int64_t copies_ = 2;  // still promised
  };

  // `memory` hears what is promised: tensors, and what they are encoded into. It outlives the budget; null: nothing
  // does.
  explicit ByteBudget(int64_t bytes, MemoryWatch* memory = nullptr) : memory_(memory), bound_(bytes) {}

  // One share larger than the whole budget is granted when nothing else is out: it would never fit otherwise.
  std::optional<Share> Take(uint64_t caller, int64_t bytes) {
    MutexLock lock(mutex_);
    if (!bound_.Fits(caller, bytes)) return std::nullopt;
    bound_.Take(caller, bytes);
    used_.store(bound_.used(), std::memory_order_relaxed);
    if (memory_ != nullptr) memory_->Promise(Twice(bytes));
    return Share(this, caller, bytes);
  }

  // Memory for so much of a reply, in tensors and encoded. Never above the largest number.
  static int64_t Twice(int64_t bytes) { return 2 * std::min(bytes, std::numeric_limits<int64_t>::max() / 2); }

  int64_t bytes() const {
    MutexLock lock(mutex_);
    return bound_.most();
  }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t held(uint64_t caller) const {
    MutexLock lock(mutex_);
    return bound_.held(caller);
  }

 private:
  void Release(uint64_t caller, int64_t bytes, int64_t copies) {
    MutexLock lock(mutex_);
    bound_.Release(caller, bytes);
    used_.store(bound_.used(), std::memory_order_relaxed);
    if (memory_ != nullptr && copies > 0) memory_->Promise(copies == 2 ? -Twice(bytes) : -bytes);
  }

  MemoryWatch* const memory_;
  mutable Mutex mutex_;
  FairBound bound_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> used_ = 0;  // of it
};

}  // namespace rnnserve
