// SPDX-License-Identifier: Apache-2.0
// Chooses the engine of a call. A name decides; "auto" takes the engine that was measured to be fastest on this machine
// for the cell, the number of rows and of steps.
//
//   absl::StatusOr<Route> route = router.Choose(name, cells, options, {.rows = 16, .steps = 100});   // cheap
//   if (route->is_provisional) engine = router.Settle(*route, cells, options);   // not on the poller thread
//   ...
//   router.Ran(cells, options, {.rows = 16, .steps = 100}, outcome.largest_batch);
//
// The first call of a cell, whose weights are to be packed anyway, waits for a trial at its own shape
// (routing_trial.h). Other shapes of the cell take the figures of the nearest one until RunTrial, on a thread of its
// own (routing_thread.h), has measured them too. Figures that are used often are measured again now and then. Trials
// take a bounded share of the time. A number of rows includes those of others that calls of the cell have lately shared
// their slices with.
//
// Engines with the last resort's name run only what no other can: it is slow by design. Where `deterministic` is asked
// for, the first engine that can runs, since two engines differ in the last bits.
//
// Thread-safe; no lock is held while an engine compiles or runs.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "server/models/program_cache.h"
#include "server/routing/routing_table.h"
#include "server/routing/routing_trial.h"

namespace rnnserve {

struct RoutingOptions {
  // The engine of calls for which neither call nor model names one, where it can run them; "auto": the fastest.
  std::string engine = "auto";
  std::string last_resort = "reference";
  TrialLimits trial = {};  // that a call waits for
  TrialLimits background_trial = PatientLimits();
  // Trials that calls wait for, together: at most this much at once, and this share of the time in the long run.
  // Calls beyond that run on the first engine that can.
  absl::Duration most_waiting = absl::Seconds(2);
  double waiting_share = 0.1;
  // Shares of the time for trials that no call waits for; and for those among them whose figures are only old. At full
  // load such trials go on for hours, and callers lose all of that time.
  double background_share = 0.05;
  double retry_share = 0.01;
  TrialClocks clocks = {};
};

using EngineList = absl::InlinedVector<const Engine*, 6>;
// "cpu", or "cpu, onednn".
std::string EngineNames(std::span<const Engine* const> engines);

struct Route {
  const Engine* engine = nullptr;
  // The cell has not been measured yet: Settle measures it. Until then this is the first engine that can run it.
  bool is_provisional = false;
  EngineList candidates = {};  // if provisional
  RouteLoad load = {};
};
using Routes = absl::InlinedVector<Route, 1>;  // of each layer of a call

class Router {
 public:
  // All outlive the router.
  Router(RoutingOptions options, std::vector<const Engine*> engines, ProgramCache* programs);

  // The engine called `name`, or its own reason not to run these cells. For "" that of the options, where it can. Else,
  // and for "auto", the fastest that supports every cell, or all reasons.
  absl::StatusOr<Route> Choose(std::string_view name, std::span<const CellPtr> cells, const EngineOptions& options,
                               RouteLoad load);
  // The engine for a provisional route: measures, or waits for another call's measurement.
  const Engine* Settle(const Route& route, std::span<const CellPtr> cells, const EngineOptions& options);
  // The first engine but `engine` that can run the cells, or null.
  const Engine* Another(const Engine* engine, std::span<const CellPtr> cells, const EngineOptions& options) const;
  // All engines that Choose may return for `name`, under any load.
  EngineList Eligible(std::string_view name, std::span<const CellPtr> cells, const EngineOptions& options) const;
  // A call has run; its largest slice held `largest_batch` sequences.
  void Ran(std::span<const CellPtr> cells, const EngineOptions& options, RouteLoad load, int64_t largest_batch);

  // Waits until there is a trial to run. False: never again, since Stop was called.
  bool AwaitTrial();
  // Runs the oldest waiting trial, if any; returns how long to rest after it.
  absl::Duration RunTrial();
  void Stop();
  // Waiting trials.
  size_t trials() const;

 private:
  struct Trial {
    CellPtr cell;
    EngineOptions options;
    RouteShape shape;
    std::vector<const Engine*> engines;
    bool is_retry = false;
  };

  EngineList Candidates(std::span<const CellPtr> cells, const EngineOptions& options) const;
  RouteLoad WithOthers(std::span<const CellPtr> cells, const EngineOptions& options, RouteLoad load) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null if a cell is unknown on one of `engines`; with `ask`, trials are asked for where the
  // figures are old or of another shape.
  const Engine* Known(std::span<const Engine* const> engines, std::span<const CellPtr> cells,
                      const EngineOptions& options, const RouteShape& shape, bool ask)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask(Trial trial) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(const Trial& trial, std::vector<EngineCost> costs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Without the mutex.
  std::vector<EngineCost> Measure(const Trial& trial, const TrialLimits& limits);

  const RoutingOptions options_;
  const std::vector<const Engine*> engines_;
  ProgramCache* const programs_;

  mutable Mutex mutex_;
  CondVar changed_;
  RoutingTable table_ ABSL_GUARDED_BY(mutex_);
  std::deque<Trial> waiting_ ABSL_GUARDED_BY(mutex_);
  bool is_settling_ ABSL_GUARDED_BY(mutex_) = false;  // a call measures
  absl::Duration allowance_ ABSL_GUARDED_BY(mutex_);  // for such calls
  absl::Duration refilled_at_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
