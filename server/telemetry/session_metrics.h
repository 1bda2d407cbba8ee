// SPDX-License-Identifier: Apache-2.0
// What sessions count, by model.
//
//   SessionMetrics metrics(registry);                               // one for the process
//   std::shared_ptr<const SessionCounters> vad = metrics.Of("vad"); // once a session
//   vad->opened->Add();
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// Whoever asks for a session of another run of the server does not say its model.
inline constexpr std::string_view kUnknownModel = "(unknown)";

struct SessionCounters {
  std::shared_ptr<Gauge> active;
  std::shared_ptr<Gauge> state_bytes;  // of states and checkpoints
  std::shared_ptr<Counter> opened;     // forks as well
  std::shared_ptr<Counter> closed;
  std::shared_ptr<Counter> expired;
  std::shared_ptr<Counter> refused;   // not opened: a limit, or the server leaves
  std::shared_ptr<Counter> resumed;   // a stream went on with a session that another stream or call had
  std::shared_ptr<Counter> lost;      // asked for after the run of the server that had it
  std::shared_ptr<Counter> repeated;  // operations answered or joined without computing them again
};
using SessionCountersPtr = std::shared_ptr<const SessionCounters>;

class SessionMetrics {
 public:
  explicit SessionMetrics(Metrics& metrics);

  // The same for all sessions of a model. Takes a lock: keep the pointer.
  SessionCountersPtr Of(std::string_view model);

 private:
  SessionCountersPtr Make(const std::string& model);

  GaugeFamily& active_;
  GaugeFamily& state_bytes_;
  CounterFamily& events_;
  CounterFamily& repeated_;

  std::mutex mutex_;
  // Guarded by mutex_. Bounded like the series themselves.
  std::map<std::string, SessionCountersPtr, std::less<>> models_;
  // Known label sets start at 0.
  const SessionCountersPtr inline_;
  const SessionCountersPtr unknown_;
};

}  // namespace rnnserve
