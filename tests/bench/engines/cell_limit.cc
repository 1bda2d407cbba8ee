// SPDX-License-Identifier: Apache-2.0
// The least that a cell takes on this machine in float32: its multiply-adds from registers, or its weights read and not
// used, whichever takes longer; first of all inputs through W, then of each step through R. Gates, copies and the call
// are left out. Timed in turns with the engines, so that what a noisy machine takes away, it takes from both.
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/targets.h"
#include "hwy/cache_control.h"
#include "tests/bench/engines/machine_rates.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

double Best(const std::function<void()>& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int k = 0; k < 9; ++k) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Weights of a thread, and what they are multiplied by.
class Part {
 public:
  // `rounds` of multiply-adds, or `floats` to be read, whichever takes longer.
  Part(const float* data, size_t floats, int64_t rounds) : data_(data), floats_(floats) {
    if (floats == 0) return;
    const double forwards = Best([this] { Twice(); });
    turns_ = true;
    const double turning = Best([this] { Twice(); });
    turns_ = turning < forwards;
    if (2 * Best([&] { MultiplyAdds(rounds, out_); }) > std::min(forwards, turning)) rounds_ = rounds;
  }

  void Take() {
    if (rounds_ > 0) {
      MultiplyAdds(rounds_, out_);
      return;
    }
    ReadFloats(data_, floats_, down_, out_);
    down_ = turns_ && !down_;
  }

 private:
  void Twice() {
    Take();
    Take();
  }

  const float* data_;
  size_t floats_;
  int64_t rounds_ = 0;
  bool turns_ = false, down_ = false;
  alignas(64) float out_[64] = {};
};

// One thread's share of the layer. A single step reads W and R as one.
class Share {
 public:
  Share(const Shape& shape, int threads)
      : w_(shape.steps == 1 ? 0 : FloatsOf(shape, threads)),
        weights_(2 * FloatsOf(shape, threads)),
        inputs_(Filled(), w_, RoundsOf(w_ * Rows(shape, shape.steps))),
        step_(weights_.data() + w_, weights_.size() - w_, RoundsOf((weights_.size() - w_) * Rows(shape, 1))) {}

  void Inputs() {
    if (w_ > 0) inputs_.Take();
  }
  void Step() { step_.Take(); }

 private:
  static size_t FloatsOf(const Shape& shape, int threads) {
    return static_cast<size_t>(GateCount(shape.kind) * shape.units * shape.units / threads);
  }
  static size_t Rows(const Shape& shape, int64_t steps) { return static_cast<size_t>(shape.rows * steps); }
  static int64_t RoundsOf(size_t multiplications) {
    alignas(64) float out[64] = {};
    return static_cast<int64_t>(2 * static_cast<double>(multiplications) / MultiplyAdds(1, out));
  }
  const float* Filled() {
    std::fill_n(weights_.data(), weights_.size(), 0.5f);
    return weights_.data();
  }

  const size_t w_;
  cpu::AlignedBuffer<float> weights_;
  Part inputs_, step_;
};

// One of two halves of h, as two threads of a single row tell them each other in every step.
struct Half {
  alignas(64) std::atomic<int64_t> step{0};
  alignas(64) std::array<float, 1024> data{};
};

class CellLimit final : public TimedCell {
 public:
  CellLimit(const Shape& shape, int threads) : shape_(shape), shares_(static_cast<size_t>(threads)) {
    cpu::LimitTargets();
    Together([&](std::unique_ptr<Share>& share) { share = std::make_unique<Share>(shape, threads); });
  }

  void Run() override {
    // Rows are halved without a word between the threads.
    const bool tells = shares_.size() == 2 && shape_.rows == 1;
    Together([&](const std::unique_ptr<Share>& share) {
      share->Inputs();
      const size_t own = &share == shares_.data() ? 0 : 1;
      for (int64_t step = 0; step < shape_.steps; ++step) {
        share->Step();
        if (tells) Exchange(own, halves_[own].step.load(std::memory_order_relaxed) + 1);
      }
    });
  }

 private:
  template <typename Work>
  void Together(const Work& work) {
#pragma omp parallel num_threads(static_cast <int>(shares_.size()))
    work(shares_[static_cast<size_t>(omp_get_thread_num())]);
  }

  void Exchange(size_t own, int64_t step) {
    const size_t floats = std::min<size_t>(static_cast<size_t>(shape_.units) / 2, 1024);
    alignas(64) std::array<float, 1024> h;
    std::copy_n(h.data(), floats, halves_[own].data.data());
    halves_[own].step.store(step, std::memory_order_release);
    while (halves_[1 - own].step.load(std::memory_order_acquire) < step) hwy::Pause();
    std::copy_n(halves_[1 - own].data.data(), floats, h.data());
  }

  const Shape shape_;
  std::vector<std::unique_ptr<Share>> shares_;  // each made by the thread that reads it
  std::array<Half, 2> halves_;
};

}  // namespace

std::unique_ptr<TimedCell> MakeCellLimit(const Shape& shape, int threads) {
  return std::make_unique<CellLimit>(shape, threads);
}

}  // namespace rnnserve::bench
