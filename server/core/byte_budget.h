// SPDX-License-Identifier: Apache-2.0
// Bounds the memory that requests hold together.
//
//   std::optional<ByteBudget::Share> share = budget.Take(bytes);   // nullopt: full
//   ...                                                            // given back when `share` goes
//
// Thread-safe; the budget outlives its shares.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace rnnserve {

class ByteBudget {
 public:
  class Share {
   public:
    Share(Share&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
    }

    // Gives back all but `bytes`.
    void ShrinkTo(int64_t bytes) {
      if (budget_ == nullptr || bytes >= bytes_) return;
      budget_->used_.fetch_sub(bytes_ - bytes, std::memory_order_relaxed);
      bytes_ = bytes;
    }

   private:
    friend class ByteBudget;
    Share(ByteBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
    ByteBudget* budget_;
    int64_t bytes_;
  };

  explicit ByteBudget(int64_t bytes) : bytes_(bytes) {}

  // One share larger than the whole budget is granted when nothing else is out: it would never fit otherwise.
  std::optional<Share> Take(int64_t bytes) {
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (used > 0 && bytes > bytes_ - used) return std::nullopt;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return Share(this, bytes);
  }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_;
  std::atomic<int64_t> used_ = 0;
};

}  // namespace rnnserve
