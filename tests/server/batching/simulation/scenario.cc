// SPDX-License-Identifier: Apache-2.0
#include "tests/server/batching/simulation/scenario.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace rnnserve::simulation {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  int64_t Uniform(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(engine_() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int64_t n) { return Uniform(1, n) == 1; }
  // Between both, small ones as likely as large ones.
  double Logarithmic(double least, double most) {
    return least * std::pow(most / least, static_cast<double>(engine_() % 10'001) / 10'000);
  }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return values.begin()[Uniform(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

BatchQueue::Options MakeOptions(Dice& dice) {
  BatchQueue::Options options;
  options.workers = static_cast<int>(dice.Uniform(1, 3));
  options.max_sequences = dice.Of<int64_t>({20, 200, 1 << 16});
  options.max_bytes = dice.Of<int64_t>({20'000, int64_t{1} << 30});
  options.max_slice_rows = dice.Of<int64_t>({3, 32, 1024});
  options.target_slice = dice.Of({absl::Microseconds(300), absl::Milliseconds(1), absl::Milliseconds(3)});
  options.max_wait = dice.Of({absl::Milliseconds(10), absl::Milliseconds(50), absl::Seconds(1)});
  if (dice.OneIn(5)) {
    options.max_batch_delay = dice.Of({absl::Milliseconds(1), absl::Milliseconds(5)});
    options.max_wait = absl::Hours(1);  // counted from the release, which the simulation does not see
  }
  return options;
}

ProgramCost MakeProgram(Dice& dice, double step_seconds) {
  ProgramCost cost;
  cost.step_seconds = step_seconds;
  cost.row_seconds = cost.step_seconds * dice.Logarithmic(0.02, 1);
  // Guesses that are off by up to four, either way.
  cost.packed_bytes = static_cast<int64_t>(cost.step_seconds * 30e9 * dice.Logarithmic(0.25, 4));
  cost.step_work = static_cast<int64_t>(cost.row_seconds * 10e9 * dice.Logarithmic(0.25, 4));
  return cost;
}

double AnyStep(Dice& dice) { return dice.Logarithmic(1e-6, 3e-4); }  // seconds

int64_t Steps(Dice& dice) { return dice.OneIn(3) ? 1 : static_cast<int64_t>(dice.Logarithmic(1, 400)); }

void AddLoad(Dice& dice, Scenario& scenario) {
  const int64_t programs = static_cast<int64_t>(scenario.programs.size());
  const bool has_priorities = dice.OneIn(2), has_deadlines = dice.OneIn(2), has_cancels = dice.OneIn(2);
  const int64_t most_rows = dice.Of<int64_t>({1, 4, 40});
  const double gap = dice.Logarithmic(2e-5, 3e-3);  // seconds
  const int64_t count = dice.Uniform(15, 80);
  absl::Duration now;
  for (int64_t k = 0; k < count; ++k) {
    if (!dice.OneIn(3)) now += absl::Seconds(dice.Logarithmic(gap / 10, gap * 3));  // else together with the last
    Arrival arrival;
    arrival.at = now;
    arrival.tenant = static_cast<int>(dice.Uniform(0, scenario.tenants - 1));
    if (has_priorities) arrival.priority = dice.Of<int32_t>({-100, 0, 0, 0, 7, 100});
    arrival.bytes = dice.Uniform(0, 3'000);
    if (has_deadlines && dice.OneIn(2)) arrival.deadline = now + absl::Seconds(dice.Logarithmic(1e-4, 0.3));
    if (has_cancels && dice.OneIn(4)) arrival.cancel = now + absl::Seconds(dice.Logarithmic(1e-6, 0.1));
    const int64_t program = dice.Uniform(0, programs - 1);
    const bool is_bidirectional = dice.OneIn(4);
    for (int64_t row = dice.Uniform(1, most_rows); row > 0; --row) {
      const int64_t steps = Steps(dice);
      arrival.sequences.push_back({static_cast<int>(program), steps, dice.OneIn(3)});
      if (is_bidirectional) arrival.sequences.push_back({static_cast<int>((program + 1) % programs), steps, false});
    }
    scenario.arrivals.push_back(std::move(arrival));
  }
}

// Each tenant sends much more at once than can run, through some programs that no other tenant uses.
void AddBacklog(Dice& dice, Scenario& scenario) {
  scenario.is_share_test = true;
  scenario.options.max_sequences = int64_t{1} << 40;
  scenario.options.max_bytes = int64_t{1} << 40;
  scenario.options.max_batch_delay = absl::ZeroDuration();
  scenario.options.max_wait = absl::Seconds(1);
  scenario.programs.clear();
  for (int tenant = 0; tenant < scenario.tenants; ++tenant) {
    const int64_t programs = dice.Uniform(1, 6);
    const double each_seconds = 0.4 / static_cast<double>(programs);
    for (int64_t k = 0; k < programs; ++k) {
      const ProgramCost cost = scenario.programs.emplace_back(MakeProgram(dice, AnyStep(dice)));
      const double alone = 50 * (cost.step_seconds + cost.row_seconds);
      for (int64_t left = std::max<int64_t>(static_cast<int64_t>(each_seconds / alone), 1); left > 0; left -= 4) {
        Arrival arrival;
        arrival.tenant = tenant;
        for (int row = 0; row < 4; ++row) {
          arrival.sequences.push_back({static_cast<int>(scenario.programs.size()) - 1, 50, false});
        }
        scenario.arrivals.push_back(std::move(arrival));
      }
    }
  }
}

}  // namespace

Scenario MakeOverload(uint64_t seed, double load) {
  Dice dice(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.options.workers = static_cast<int>(dice.Uniform(1, 3));
  scenario.tenants = dice.OneIn(2) ? 1 : static_cast<int>(dice.Uniform(1, 4));
  // Of a size that some hundred requests take much longer than a slice that the machine disturbs.
  const ProgramCost cost = scenario.programs.emplace_back(MakeProgram(dice, dice.Logarithmic(5e-5, 3e-4)));
  const bool is_mixed = dice.OneIn(3);
  const int64_t longest = static_cast<int64_t>(dice.Logarithmic(50, 400));
  const double mean_steps = is_mixed ? static_cast<double>(1 + longest) / 2 : static_cast<double>(longest);
  const double row_step = cost.row_seconds + cost.step_seconds / 16;
  const double gap = mean_steps * row_step / scenario.options.workers;  // of requests that keep all workers busy
  const double most = gap * dice.Logarithmic(100, 400);
  const absl::Duration deadline = absl::Seconds(most + 2 * static_cast<double>(longest) * row_step * 16);
  if (dice.OneIn(2)) {
    scenario.slow_period = deadline * 0.7;
    scenario.slow = dice.Logarithmic(1.2, 2);
  }
  scenario.measured_from = deadline;
  scenario.measured_to = 4 * deadline;
  for (absl::Duration now; now < scenario.measured_to;) {
    now -= absl::Seconds(gap / load * std::log(static_cast<double>(dice.Uniform(1, 10'000)) / 10'000));
    Arrival arrival;
    arrival.at = now;
    arrival.deadline = now + deadline;
    arrival.tenant = static_cast<int>(dice.Uniform(0, scenario.tenants - 1));
    arrival.sequences.push_back({0, is_mixed ? dice.Uniform(1, longest) : longest, false});
    scenario.arrivals.push_back(std::move(arrival));
  }
  return scenario;
}

Scenario MakeScenario(uint64_t seed) {
  Dice dice(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.options = MakeOptions(dice);
  scenario.tenants = static_cast<int>(dice.Uniform(1, 4));
  for (int64_t k = dice.Uniform(1, 5); k > 0; --k) scenario.programs.push_back(MakeProgram(dice, AnyStep(dice)));
  if (dice.OneIn(16)) {
    AddBacklog(dice, scenario);
  } else {
    AddLoad(dice, scenario);
  }
  return scenario;
}

}  // namespace rnnserve::simulation
