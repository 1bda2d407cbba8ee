// SPDX-License-Identifier: Apache-2.0
// What sessions count, by model.
//
//   SessionMetrics metrics(registry, labels);                       // one for the process
//   std::shared_ptr<const SessionCounters> vad = metrics.Of("vad"); // once a session
//   vad->opened->Add();
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_calls.h"
#include "server/telemetry/model_labels.h"

namespace rnnserve {

struct SessionCounters {
  std::shared_ptr<Gauge> active;
  std::shared_ptr<Gauge> state_bytes;  // of states and checkpoints
  std::shared_ptr<Counter> opened;     // forks as well
  std::shared_ptr<Counter> closed;
  std::shared_ptr<Counter> expired;
  std::shared_ptr<Counter> moved;       // ended here: another server has taken it over
  std::shared_ptr<Counter> taken_over;  // from another server, by its record
  std::shared_ptr<Counter> refused;     // not opened: a limit, or the server leaves
  std::shared_ptr<Counter> resumed;     // a stream went on with a session that another stream or call had
  std::shared_ptr<Counter> lost;        // asked for after the run of the server, or the engine, that had it
  std::shared_ptr<Counter> repeated;    // operations answered or joined without computing them again
  const CallMetrics* calls;             // of the model, which operations count under; null: not counted
};
using SessionCountersPtr = std::shared_ptr<const SessionCounters>;

class SessionMetrics {
 public:
  // `labels` and `calls` outlive this, and what it gives out.
  SessionMetrics(Metrics& metrics, ModelLabels& labels, ModelCalls* calls = nullptr);

  // The same for all sessions of a model, and for those of all models without series of their own. Takes a lock: keep
  // the pointer.
  SessionCountersPtr Of(std::string_view model);

 private:
  SessionCountersPtr Make(const std::string& label);

  ModelLabels& labels_;
  ModelCalls* const calls_;
  GaugeFamily& active_;
  GaugeFamily& state_bytes_;
  CounterFamily& events_;
  CounterFamily& repeated_;

  Mutex mutex_;
  std::map<std::string, SessionCountersPtr, std::less<>> by_label_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve
