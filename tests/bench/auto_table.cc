// SPDX-License-Identifier: Apache-2.0
// Whether engine "auto" finds the fastest one: each cell of the engine table, once through the server's router and then
// on every engine in turns. Prints a Markdown table and the worst ratio; ends with 1 if that is above 1.1.
//
//   build/release/tests/bench/auto_table [--rounds=9] [--cpu_helper]
//
// --cpu_helper: the cpu engine has its helper thread, as in a server with that flag; times are then those of a clock.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "engine/onednn/onednn_engine.h"
#include "engine/reference/reference_engine.h"
#include "server/routing/router.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

constexpr double kGoal = 1.1;
constexpr double kTurnSeconds = 0.02;
const char* const kKinds[] = {"LSTM", "GRU", "RNN"};
const char* const kEngines[] = {"cpu", "onednn"};

std::vector<Shape> Shapes(CellKind kind) {
  std::vector<Shape> shapes;
  for (const auto& [steps, rows, units] : std::vector<std::array<int64_t, 3>>{{1, 1, 128},
                                                                              {1, 1, 256},
                                                                              {1, 1, 512},
                                                                              {1, 1, 1024},
                                                                              {1, 32, 512},
                                                                              {1, 64, 1024},
                                                                              {32, 1, 512},
                                                                              {32, 16, 256},
                                                                              {64, 32, 512},
                                                                              {100, 1, 256},
                                                                              {16, 64, 1024}}) {
    shapes.push_back({kind, steps, rows, units});
  }
  return shapes;
}

// Without a helper the engines stay on this thread, and its time on a processor counts: others may be at work on this
// machine.
bool with_helper = false;

double Now() {
  timespec now = {};
  clock_gettime(with_helper ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Of one run: the median of as many as fit into a turn.
double Turn(TimedCell& cell) {
  std::vector<double> seconds;
  const double end = Now() + kTurnSeconds;
  for (double start = Now(); seconds.empty() || start < end; start = Now()) {
    cell.Run();
    seconds.push_back(Now() - start);
  }
  return Median(std::move(seconds));
}

// Medians over the rounds, an entry an engine.
std::vector<double> Measure(const Shape& shape, int rounds) {
  std::vector<std::unique_ptr<TimedCell>> cells;
  cells.push_back(MakeOwnCell("cpu", shape, with_helper ? 2 : 1).value());
  cells.push_back(MakeOwnCell("onednn", shape, 1).value());
  for (const auto& cell : cells) cell->Run();
  std::vector<std::vector<double>> turns(cells.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < cells.size(); ++k) turns[k].push_back(Turn(*cells[k]));
  }
  std::vector<double> medians;
  for (std::vector<double>& of : turns) medians.push_back(Median(std::move(of)));
  return medians;
}

// The server's way: the first call of a cell waits for its trial, the rest is measured behind the calls' backs. This
// many calls are enough to have every figure from there.
constexpr int kCalls = 100;

std::string Choose(Router& router, const Shape& shape) {
  const std::vector<CellPtr> cells = {MakeCell(shape)};
  const RouteLoad load = {.rows = shape.rows, .steps = shape.steps};
  std::string chosen;
  for (int call = 0; call < kCalls; ++call) {
    chosen = router.Settle(router.Choose("auto", cells, {}, load).value(), cells, {})->name();
    while (router.trials() > 0) router.RunTrial();
  }
  return chosen;
}

int Run(int rounds) {
  const std::unique_ptr<Engine> engines[] = {with_helper ? MakeCpuEngineWithHelper() : MakeCpuEngine(),
                                             MakeOneDnnEngine(), MakeReferenceEngine()};
  ProgramCache programs(int64_t{1} << 30);
  Router router({}, {engines[0].get(), engines[1].get(), engines[2].get()}, &programs);
  double worst = 0;
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    std::printf("\n**%s** (us a call)\n\n| T, N, H | cpu | onednn | auto | auto / best |\n|---|---|---|---|---|\n",
                kKinds[static_cast<size_t>(kind)]);
    for (const Shape& shape : Shapes(kind)) {
      const std::string chosen = Choose(router, shape);
      const std::vector<double> seconds = Measure(shape, rounds);
      const double ratio = seconds[chosen == kEngines[0] ? 0 : 1] / std::ranges::min(seconds);
      worst = std::max(worst, ratio);
      std::printf("| %ld, %ld, %ld | %.1f | %.1f | %s | %.2f |\n", static_cast<long>(shape.steps),
                  static_cast<long>(shape.rows), static_cast<long>(shape.units), seconds[0] * 1e6, seconds[1] * 1e6,
                  chosen.c_str(), ratio);
      std::fflush(stdout);
    }
  }
  std::printf("\nWorst %.2f; the goal is %.1f.\n", worst, kGoal);
  return worst <= kGoal ? 0 : 1;
}

}  // namespace
}  // namespace rnnserve::bench

int main(int argc, char** argv) {
  int rounds = 9;
  for (int k = 1; k < argc; ++k) {
    const std::string_view argument = argv[k];
    constexpr std::string_view kRounds = "--rounds=";
    if (argument == "--cpu_helper") {
      rnnserve::bench::with_helper = true;
    } else if (argument.starts_with(kRounds)) {
      rounds = std::atoi(argv[k] + kRounds.size());
    } else {
      rounds = 0;
    }
    if (rounds < 1) {
      std::fprintf(stderr, "usage: auto_table [--rounds=9] [--cpu_helper]\n");
      return 2;
    }
  }
  return rnnserve::bench::Run(rounds);
}
