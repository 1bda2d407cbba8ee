// SPDX-License-Identifier: Apache-2.0
// The least that a cell takes on this machine by multiply-adds of float32: these from registers, or its weights read
// and not used, whichever takes longer; first of all inputs through W, then of each step through R. Gates, copies and
// the call are left out; where the CPU has tiles, products in parts may take less. Timed in turns with the engines, so
// that what a noisy machine takes away, it takes from both. With two threads each has half of the multiply-adds and of
// the weights; one row's tell each other their halves of h between two steps. The begin and the end of a parallel
// region of OpenMP are in it then.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/targets.h"
#include "tests/bench/engines/half_exchange.h"
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
    rounds_ = rounds;
    if (floats == 0) return;
    const double adding = Best([this] { Twice(); });
    rounds_ = 0;
    const double forwards = Best([this] { Twice(); });
    turns_ = true;
    const double turning = Best([this] { Twice(); });
    turns_ = turning < forwards;
    if (adding > std::min(forwards, turning)) rounds_ = rounds;
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
      : floats_(GateCount(shape.kind) * shape.units * shape.units / threads),
        w_(shape.steps == 1 ? 0 : Whole(floats_)),
        weights_(Whole(2 * floats_)),
        inputs_(Filled(), w_, shape.steps == 1 ? 0 : RoundsOf(floats_ * shape.steps * shape.rows)),
        step_(weights_.data() + w_, weights_.size() - w_, RoundsOf((shape.steps == 1 ? 2 : 1) * floats_ * shape.rows)) {
  }

  void Inputs() { inputs_.Take(); }
  void Step() { step_.Take(); }

 private:
  static size_t Whole(int64_t floats) { return static_cast<size_t>(floats) / kReadFloats * kReadFloats; }
  static int64_t RoundsOf(int64_t multiplications) {
    alignas(64) float out[64] = {};
    return static_cast<int64_t>(2 * static_cast<double>(multiplications) / MultiplyAdds(1, out));
  }
  const float* Filled() {
    std::fill_n(weights_.data(), weights_.size(), 0.5f);
    return weights_.data();
  }

  const int64_t floats_;  // of W, and of R
  const size_t w_;
  cpu::AlignedBuffer<float> weights_;
  Part inputs_, step_;
};

class CellLimit final : public TimedCell {
 public:
  CellLimit(const Shape& shape, int threads)
      : shape_(shape),
        told_(threads == 2 && shape.rows == 1
                  ? std::min(static_cast<size_t>(shape.units) / 2, HalfExchange::kMostFloats)
                  : 0),
        threads_(threads),
        shares_(static_cast<size_t>(threads)) {
    Together([&](size_t thread) { shares_[thread] = std::make_unique<Share>(shape, threads); });
  }

  void Run() override {
    Together([this](size_t thread) {
      Share& share = *shares_[thread];
      share.Inputs();
      for (int64_t step = 0; step < shape_.steps; ++step) {
        if (step > 0 && told_ > 0) exchange_.Step(thread, told_);
        share.Step();
      }
    });
  }

 private:
  template <typename Work>
  void Together(const Work& work) {
#pragma omp parallel num_threads(threads_)
    work(static_cast<size_t>(omp_get_thread_num()));
  }

  const Shape shape_;
  const size_t told_;  // floats in each step
  const int threads_;
  std::vector<std::unique_ptr<Share>> shares_;  // each made by the thread that reads it
  HalfExchange exchange_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCell>> MakeCellLimit(const Shape& shape, int threads) {
  cpu::LimitTargets();
  int team = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
  team = omp_get_num_threads();
  if (team != threads) return absl::UnimplementedError("OpenMP gives fewer threads");
  return std::make_unique<CellLimit>(shape, threads);
}

}  // namespace rnnserve::bench
