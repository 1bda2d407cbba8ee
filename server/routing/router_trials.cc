// SPDX-License-Identifier: Apache-2.0
// Router: the trials that measure engines.
#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/routing/router.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

// Each holds a cell's weights.
constexpr size_t kMostWaiting = 8;

std::string Describe(const CellSpec& cell, const RouteShape& shape, const RouteCosts& costs) {
  static constexpr const char* kKinds[] = {"LSTM", "GRU", "RNN"};
  const std::string_view type = DataTypeName(cell.data_type);
  std::string text =
      absl::StrCat("routing: ", kKinds[static_cast<size_t>(cell.kind)], " of ", cell.input_size, " to ",
                   cell.hidden_size, " in ", absl::string_view(type.data(), type.size()), ", ", shape.rows,
                   shape.is_shared ? " rows of several calls, " : " rows, ", shape.steps, " steps:");
  for (const auto& [engine, seconds] : costs.engines) {
    absl::StrAppend(&text, " ", std::string(engine->name()), " ", seconds * 1e6, " us a step;");
  }
  return absl::StrCat(text, " taking ", costs.best == nullptr ? "none" : std::string(costs.best->name()));
}

}  // namespace

const Engine* Router::Settle(const Route& route, std::span<const CellPtr> cells, const EngineOptions& options) {
  if (!route.is_provisional) return route.engine;
  const RouteShape shape = ShapeOf(route.load);
  MutexLock lock(mutex_);
  // One trial at a time: others would disturb it, and may ask for the same.
  changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !is_settling_; });
  Refill();
  for (const CellPtr& cell : cells) {
    if (Known(route.candidates, {&cell, 1}, options, shape, false) != nullptr) continue;
    Trial trial{cell, options, shape, {route.candidates.begin(), route.candidates.end()}};
    if (allowance_ <= absl::ZeroDuration()) {
      Ask(std::move(trial));
      continue;
    }
    is_settling_ = true;
    lock.unlock();
    const absl::Duration start = options_.clocks.wall();
    std::vector<EngineCost> costs = Measure(trial, options_.trial);
    const absl::Duration took = options_.clocks.wall() - start;
    lock.lock();
    is_settling_ = false;
    allowance_ -= took;
    Keep(trial, std::move(costs));
  }
  changed_.notify_all();
  const Engine* known = Known(route.candidates, cells, options, shape, false);
  return known != nullptr ? known : route.engine;
}

bool Router::AwaitTrial() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || !waiting_.empty(); });
  return !stopped_;
}

absl::Duration Router::RunTrial() {
  MutexLock lock(mutex_);
  if (waiting_.empty()) return absl::ZeroDuration();
  const Trial trial = std::move(waiting_.front());
  waiting_.pop_front();
  lock.unlock();
  const absl::Duration start = options_.clocks.wall();
  std::vector<EngineCost> costs = Measure(trial, options_.background_trial);
  const absl::Duration took = options_.clocks.wall() - start;
  lock.lock();
  Keep(trial, std::move(costs));
  return took * (1 / (trial.is_retry ? options_.retry_share : options_.background_share) - 1);
}

void Router::Stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

size_t Router::trials() const {
  const MutexLock lock(mutex_);
  return waiting_.size();
}

void Router::Ask(Trial trial) {
  if (stopped_ || waiting_.size() >= kMostWaiting) return;
  const auto is_same = [&trial](const Trial& other) {
    return other.shape == trial.shape && other.options == trial.options && other.cell->spec() == trial.cell->spec();
  };
  if (std::ranges::any_of(waiting_, is_same)) return;
  waiting_.push_back(std::move(trial));
  changed_.notify_all();
}

void Router::Refill() {
  const absl::Duration now = options_.clocks.wall();
  allowance_ = std::min(options_.most_waiting, allowance_ + (now - refilled_at_) * options_.waiting_share);
  refilled_at_ = now;
}

void Router::Keep(const Trial& trial, std::vector<EngineCost> costs) {
  const RouteKey key{trial.cell->spec(), trial.options};
  table_.Put(key, trial.shape, std::move(costs));
  LogDebug(Describe(key.cell, trial.shape, *table_.Find(key, trial.shape).costs));
}

// Programs that are only there for the trial go again, but for the fastest one's.
std::vector<EngineCost> Router::Measure(const Trial& trial, const TrialLimits& limits) {
  std::vector<EngineCost> costs;
  std::vector<ProgramPtr> programs;
  std::vector<const Engine*> compiled, fresh;
  for (const Engine* engine : trial.engines) {
    costs.push_back({engine, std::numeric_limits<double>::infinity()});
    const bool was_here = programs_->Holds(*engine, *trial.cell, trial.options);
    absl::StatusOr<ProgramPtr> program = programs_->Get(*engine, trial.cell, trial.options);
    if (!program.ok()) continue;
    if (!was_here) fresh.push_back(engine);
    compiled.push_back(engine);
    programs.push_back(*std::move(program));
  }
  std::vector<double> seconds;
  try {
    seconds = TimePrograms(programs, trial.cell->spec(), trial.shape, limits, options_.clocks);
  } catch (const std::bad_alloc&) {
    LogWarning("routing: no memory left to measure engines");
  }
  for (size_t k = 0; k < seconds.size(); ++k) {
    std::ranges::find(costs, compiled[k], &EngineCost::engine)->seconds = seconds[k];
  }
  programs.clear();
  const Engine* fastest = std::ranges::min_element(costs, {}, &EngineCost::seconds)->engine;
  for (const Engine* engine : fresh) {
    if (engine != fastest) programs_->Forget(*engine, *trial.cell, trial.options);
  }
  return costs;
}

}  // namespace rnnserve
