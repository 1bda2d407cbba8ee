// SPDX-License-Identifier: Apache-2.0
// What a stretch of a measurement counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "client/rnnctl/bench/histogram.h"
#include "client/rnnctl/bench/sender.h"
#include "client/rnnctl/bench/stability.h"

namespace rnnserve::rnnctl::bench {

struct Tally {
  struct Errors {
    int64_t count = 0;
    std::string first_message;
  };

  // Latencies and times are those of calls that ended well; a quick refusal must not make a server look fast.
  Histogram latency;
  Histogram lag;  // of sending, behind the intended moment
  Histogram queue;
  Histogram compute;
  Histogram refusal;  // RESOURCE_EXHAUSTED, from the moment of sending
  int64_t late = 0;   // of the latencies: answers that came after the span, so that they say nothing of calls a second
  int64_t largest_batch = 0;
  std::map<int, Errors> errors;  // by status code
  int64_t same = 0, close = 0, wrong = 0;
  int64_t sent_bytes = 0, received_bytes = 0;  // of calls that ended well
  int64_t steps = 0;                           // of chunks that ended well
  std::chrono::nanoseconds span{0};
  std::chrono::nanoseconds cpu{0};  // this client's

  void Record(const Answer& answer, std::chrono::nanoseconds latency_of_call, std::chrono::nanoseconds lag_of_call);
  void Merge(const Tally& other);

  int64_t good() const { return latency.count(); }
  int64_t failed() const;
  int64_t answered() const { return good() + failed(); }
  double CallsPerSecond() const;  // that ended well
  double StepsPerSecond() const;
  WindowFigures Figures() const;
};

}  // namespace rnnserve::rnnctl::bench
