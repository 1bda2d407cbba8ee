// SPDX-License-Identifier: Apache-2.0
// What sessions count, by model.
//
//   SessionMetrics metrics(registry, labels);                       // one for the process
//   std::shared_ptr<const SessionCounters> vad = metrics.Of("vad"); // once a session
//   vad->opened->Add();
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_labels.h"

namespace rnnserve {

struct SessionCounters {
  std::shared_ptr<Gauge> active;
  std::shared_ptr<Gauge> state_bytes;  // of states and checkpoints
  std::shared_ptr<Counter> opened;     // forks as well
  std::shared_ptr<Counter> closed;
  std::shared_ptr<Counter> expired;
  std::shared_ptr<Counter> refused;   // not opened: a limit, or the server leaves
  std::shared_ptr<Counter> resumed;   // a stream went on with a session that another stream or call had
  std::shared_ptr<Counter> lost;      // asked for after the run of the server, or the engine, that had it
  std::shared_ptr<Counter> repeated;  // operations answered or joined without computing them again
};
using SessionCountersPtr = std::shared_ptr<const SessionCounters>;

class SessionMetrics {
 public:
  // `labels` outlives this.
  SessionMetrics(Metrics& metrics, ModelLabels& labels);

  // The same for all sessions of a model, and for those of all models without series of their own. Takes a lock: keep
  // the pointer.
  SessionCountersPtr Of(std::string_view model);

  // Labels of models that are shown as 0 until they have sessions.
  void SetKnown(std::span<const std::string> models);

 private:
  SessionCountersPtr Make(const std::string& label);

  ModelLabels& labels_;
  GaugeFamily& active_;
  GaugeFamily& state_bytes_;
  CounterFamily& events_;
  CounterFamily& repeated_;

  Mutex mutex_;
  std::map<std::string, SessionCountersPtr, std::less<>> by_label_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve
