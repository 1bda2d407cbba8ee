// SPDX-License-Identifier: Apache-2.0
// The moments at which requests of an open loop are due. They depend on the seed alone, never on how fast answers come;
// that is what makes the loop open.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>

namespace rnnserve::rnnctl::bench {

// A Poisson process, whose gaps are exponential.
class PoissonArrivals {
 public:
  // `per_second` above 0. The first gap begins at `start`.
  PoissonArrivals(double per_second, uint64_t seed, std::chrono::nanoseconds start);

  std::chrono::nanoseconds next() const { return next_; }
  void Advance();

 private:
  std::mt19937_64 random_;
  std::exponential_distribution<double> gap_s_;
  std::chrono::nanoseconds next_;
};

// Chunks of many sessions in the order in which they are due.
class ChunkArrivals {
 public:
  struct Chunk {
    size_t slot;  // of the session
    std::chrono::nanoseconds at;
  };
  virtual ~ChunkArrivals() = default;
  virtual Chunk next() const = 0;
  virtual void Advance() = 0;
};

// One every `cadence` (above 0) in each of `sessions` (at least 1); the first of each at a random moment within it.
std::unique_ptr<ChunkArrivals> MakeRegularChunks(size_t sessions, std::chrono::nanoseconds cadence, uint64_t seed,
                                                 std::chrono::nanoseconds start);
// As many on average, each session's a Poisson process of its own.
std::unique_ptr<ChunkArrivals> MakeIrregularChunks(size_t sessions, std::chrono::nanoseconds cadence, uint64_t seed,
                                                   std::chrono::nanoseconds start);

}  // namespace rnnserve::rnnctl::bench
