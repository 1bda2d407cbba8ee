// SPDX-License-Identifier: Apache-2.0
// What a core of this machine can do at most, by the best instruction set or the one RNNSERVE_MAX_CPU_ISA names: fused
// multiply-adds from registers, and reading a working set over and over, forwards and back and forth. With two threads
// also what a step costs that they share: each writes its half, tells the other, and reads the other's half.
//
//   build/release/tests/bench/machine_limits [THREADS]     CPU time of each thread, best of many, all threads together
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "engine/cpu/targets.h"
#include "tests/bench/engines/half_exchange.h"
#include "tests/bench/engines/machine_rates.h"

namespace rnnserve::bench {
namespace {

double Now() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Run>
double Best(const Run& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int k = 0; k < 200; ++k) {
    const double start = Now();
    run();
    best = std::min(best, Now() - start);
  }
  return best;
}

// Each thread measures for itself while the others do the same; their rates are added.
template <typename Rate>
double Together(int threads, const Rate& rate) {
  std::vector<double> rates(static_cast<size_t>(threads));
  std::vector<std::thread> running;
  for (double& own : rates) running.emplace_back([&own, &rate] { own = rate(); });
  for (std::thread& thread : running) thread.join();
  double all = 0;
  for (const double own : rates) all += own;
  return all;
}

double AddRate() {
  float out[64] = {};
  double operations = 0;
  return 1 / Best([&] { operations = MultiplyAdds(20000, out); }) * operations;
}

double Reads(size_t bytes, bool back_and_forth) {
  std::vector<float> data(bytes / sizeof(float) + 64, 0.5f);
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  const float* const aligned = data.data() + (64 - address % 64) / sizeof(float);
  const size_t passes = std::max<size_t>(2, (size_t{4} << 20) / bytes);
  float out[64] = {};
  const double seconds = Best([&] {
    for (size_t k = 0; k < passes; ++k) {
      ReadFloats(aligned, bytes / sizeof(float), back_and_forth && k % 2 == 1, out);
    }
  });
  return static_cast<double>(bytes * passes) / seconds;
}

// Seconds of a step in which each of two threads writes so many floats and then reads the other's.
double Exchange(size_t floats) {
  constexpr int kSteps = 20'000;
  HalfExchange exchange;
  const auto run = [&](size_t own) {
    for (int step = 0; step < kSteps; ++step) exchange.Step(own, floats);
  };
  std::thread other([&run] { run(1); });
  const auto start = std::chrono::steady_clock::now();
  run(0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  other.join();
  return took.count() / kSteps;
}

}  // namespace
}  // namespace rnnserve::bench

int main(int argc, char** argv) {
  using namespace rnnserve::bench;
  rnnserve::cpu::LimitTargets();
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::printf("%s, %d threads\n", RatesTarget(), threads);
  std::printf("multiply-add %.0f GFLOP/s\n", Together(threads, &AddRate) * 1e-9);
  for (const size_t kib : {24, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536}) {
    const auto reads = [kib](bool back) { return [kib, back] { return Reads(kib << 10, back); }; };
    std::printf("read %6zu KiB each %.0f GB/s, back and forth %.0f\n", kib, Together(threads, reads(false)) * 1e-9,
                Together(threads, reads(true)) * 1e-9);
  }
  for (const size_t floats : {0, 64, 128, 256, 512}) {
    if (threads == 2) std::printf("exchange %4zu B each way %.0f ns a step\n", 4 * floats, Exchange(floats) * 1e9);
  }
}
