// SPDX-License-Identifier: Apache-2.0
// Times one contestant of the engine table on request; engine_table.py asks several of them in turn.
//
//   cell_timer cpu|cpu/FLOAT16|cpu/BFLOAT16|cpu/INT8|onednn|onednn-primitive[/BFLOAT16]|onednn-product|limit
//   > make LSTM 32 1 512 2      kind, T, N, H, threads     < ok | no REASON
//   > time 50                   milliseconds               < 3.25e-06   (median seconds of a call)
//   > cpu-time 50               the same in CPU time of the process
#include <time.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

double Now(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Seconds(TimedCell& cell, int64_t calls, clockid_t clock) {
  const double start = Now(clock);
  for (int64_t k = 0; k < calls; ++k) cell.Run();
  return (Now(clock) - start) / static_cast<double>(calls);
}

// The median of samples of about half a millisecond: a preempted one does not count.
double MedianSeconds(TimedCell& cell, double span, clockid_t clock) {
  Seconds(cell, 1, clock);  // the caches are another contestant's
  const double one = std::min(Seconds(cell, 1, clock), Seconds(cell, 1, clock));
  const auto calls = std::clamp<int64_t>(static_cast<int64_t>(0.5e-3 / one), 1, 10000);
  std::vector<double> samples;
  for (double spent = 0; spent < span || samples.size() < 3;) {
    samples.push_back(Seconds(cell, calls, clock));
    spent += samples.back() * static_cast<double>(calls);
  }
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

absl::StatusOr<std::unique_ptr<TimedCell>> Make(const std::string& contestant, std::istream& words) {
  std::string kind;
  Shape shape;
  int threads = 1;
  if (!(words >> kind >> shape.steps >> shape.rows >> shape.units >> threads)) {
    return absl::InvalidArgumentError("expected: make KIND T N H THREADS");
  }
  shape.kind = kind == "LSTM" ? CellKind::kLstm : kind == "GRU" ? CellKind::kGru : CellKind::kRnn;
  if (contestant == "onednn-primitive") return MakeOneDnnPrimitive(shape, threads, false);
  if (contestant == "onednn-primitive/BFLOAT16") return MakeOneDnnPrimitive(shape, threads, true);
  if (contestant == "onednn-product") return MakeOneDnnProduct(shape, threads);
  if (contestant == "limit") return MakeCellLimit(shape, threads);
  return MakeOwnCell(contestant, shape, threads);
}

void Serve(const std::string& contestant) {
  std::unique_ptr<TimedCell> cell;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    double ms = 0;
    words >> verb;
    if (verb == "make") {
      cell.reset();  // one at a time in memory
      auto made = Make(contestant, words);
      if (made.ok()) cell = *std::move(made);
      std::cout << (cell ? "ok" : "no " + std::string(made.status().message())) << std::endl;
    } else if ((verb == "time" || verb == "cpu-time") && cell && words >> ms) {
      const clockid_t clock = verb == "time" ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
      std::cout << MedianSeconds(*cell, ms * 1e-3, clock) << std::endl;
    } else {
      std::cout << "no such request: " << line << std::endl;
    }
  }
}

}  // namespace
}  // namespace rnnserve::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: cell_timer cpu|onednn|onednn-primitive|onednn-product|limit\n";
    return 2;
  }
  rnnserve::bench::Serve(argv[1]);
}
