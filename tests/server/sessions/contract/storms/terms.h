// SPDX-License-Identifier: Apache-2.0
// What a world of replicas, callers and a store is made of, and what it is measured by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "server/sessions/contract/durability.h"
#include "tests/server/sessions/contract/storms/fault.h"

namespace rnnserve::storms {

struct Terms {
  uint64_t seed = 1;
  Fault fault = Fault::kNone;
  size_t replicas = 3;
  size_t callers = 12;       // a session each
  uint64_t operations = 60;  // of each caller
  absl::Duration every = absl::Milliseconds(100);
  Durability durability = Durability::kSync;  // of caller k where `mixed`: the two by turns
  bool mixed = false;
  // Not 0: each caller's session has a name, is closed after its operations, and opened again under that name, so many
  // times; now and then the caller forgets its key and attaches.
  uint64_t rounds = 0;
  absl::Duration idle_timeout = absl::Minutes(10);
  size_t record_bytes = 2000;
  absl::Duration step = absl::Microseconds(20);            // of a replica's engine, one operation at a time
  absl::Duration store_step = absl::Microseconds(8);       // of the store, one request at a time
  absl::Duration least_latency = absl::Microseconds(100);  // one way, everywhere
  absl::Duration most_latency = absl::Milliseconds(2);
  absl::Duration silence = absl::Seconds(2);  // after which a caller leaves a replica that does not answer
  int64_t most_requests = 1 << 20;            // of the queue from one replica to the store
  int64_t most_bytes = int64_t{64} << 20;
};

// Gauges with the most that they were.
struct Gauge {
  int64_t now = 0;
  int64_t most = 0;
  void Add(int64_t by) { most = std::max(most, now += by); }
};

struct Figures {
  Gauge under_way;              // operations at replicas without an answer
  Gauge queued;                 // requests from all replicas to the store without an answer
  Gauge queued_bytes;           // the same
  int64_t most_of_a_queue = 0;  // bytes, of the fullest replica's
  int64_t tries = 0;            // operations sent
  int64_t answered = 0;
  int64_t takes = 0;  // takeovers that the store has carried out
  int64_t writes = 0;
  int64_t full = 0;      // requests that the queue refused
  int64_t replayed = 0;  // numbers sent again after a takeover
  int64_t reopened = 0;  // names, after a Close
  int64_t attached = 0;  // callers, to a session whose key they had forgotten
  int64_t probed = 0;    // operations with the key of a closed session
  absl::Duration longest_stall = absl::ZeroDuration();
  std::string wrong;  // the first thing that must not be; empty
  void Wrong(std::string what) {
    if (wrong.empty()) wrong = std::move(what);
  }
};

}  // namespace rnnserve::storms
