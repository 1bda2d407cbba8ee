// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/arrivals.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rnnserve::rnnctl::bench {
namespace {

class RegularChunks final : public ChunkArrivals {
 public:
  RegularChunks(size_t sessions, std::chrono::nanoseconds cadence, uint64_t seed, std::chrono::nanoseconds start)
      : cadence_(cadence), cycle_(start) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int64_t> phase(0, cadence.count() - 1);
    for (size_t slot = 0; slot < sessions; ++slot) {
      first_.push_back({slot, std::chrono::nanoseconds(phase(random))});
    }
    std::sort(first_.begin(), first_.end(), [](const Chunk& a, const Chunk& b) { return a.at < b.at; });
  }

  Chunk next() const override { return {first_[place_].slot, cycle_ + first_[place_].at}; }
  void Advance() override {
    if (++place_ < first_.size()) return;
    place_ = 0;
    cycle_ += cadence_;
  }

 private:
  const std::chrono::nanoseconds cadence_;
  std::vector<Chunk> first_;  // within a cadence
  size_t place_ = 0;
  std::chrono::nanoseconds cycle_;
};

// Poisson processes side by side are one of their rates together, whose marks are drawn evenly.
class IrregularChunks final : public ChunkArrivals {
 public:
  IrregularChunks(size_t sessions, std::chrono::nanoseconds cadence, uint64_t seed, std::chrono::nanoseconds start)
      : arrivals_(static_cast<double>(sessions) / std::chrono::duration<double>(cadence).count(), seed, start),
        random_(~seed),
        slots_(0, sessions - 1),
        slot_(slots_(random_)) {}

  Chunk next() const override { return {slot_, arrivals_.next()}; }
  void Advance() override {
    arrivals_.Advance();
    slot_ = slots_(random_);
  }

 private:
  PoissonArrivals arrivals_;
  std::mt19937_64 random_;
  std::uniform_int_distribution<size_t> slots_;
  size_t slot_;
};

}  // namespace

PoissonArrivals::PoissonArrivals(double per_second, uint64_t seed, std::chrono::nanoseconds start)
    : random_(seed), gap_s_(per_second), next_(start) {
  Advance();
}

void PoissonArrivals::Advance() {
  // A day at most: keeps the sum in range at absurdly low rates.
  const double gap_ns = std::min(gap_s_(random_) * 1e9, 86400e9);
  next_ += std::chrono::nanoseconds(std::llround(gap_ns));
}

std::unique_ptr<ChunkArrivals> MakeRegularChunks(size_t sessions, std::chrono::nanoseconds cadence, uint64_t seed,
                                                 std::chrono::nanoseconds start) {
  return std::make_unique<RegularChunks>(sessions, cadence, seed, start);
}

std::unique_ptr<ChunkArrivals> MakeIrregularChunks(size_t sessions, std::chrono::nanoseconds cadence, uint64_t seed,
                                                   std::chrono::nanoseconds start) {
  return std::make_unique<IrregularChunks>(sessions, cadence, seed, start);
}

}  // namespace rnnserve::rnnctl::bench
