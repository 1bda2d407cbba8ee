// SPDX-License-Identifier: Apache-2.0
// When which slot of a caller sends its next call. Three loads, three schedules:
//
//   closed loop    every free slot, at once
//   open loop      requests of a Poisson process, by whichever slot is free
//   sessions       each slot is a session with chunks of its own, one every cadence; a chunk whose predecessor is not
//                  answered yet waits in the client, and its latency counts from when it was due
//
//   while (std::optional<Due> due = schedule->Next(now)) send(due->slot);
//   ... wait for an answer until schedule->wake() ...
//   schedule->Free(slot);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

struct Load {
  // Callers of a closed loop, or sessions.
  int64_t concurrency = 1;
  // Requests a second of an open loop; 0: closed.
  double rate = 0;
  // Of an open loop; what is due beyond it waits in the client.
  int64_t max_in_flight = 1024;
  // Of an open loop: how often it sends what is due and reads answers. 0: at once. Waking up for each of them takes CPU
  // from a server on the same machine.
  Time tick{0};
  // Each slot is a session. With a cadence, chunks are due that often in each; 0: as soon as the last is answered.
  bool sessions = false;
  Time cadence{0};
  // Chunks of a session are due at random (Poisson) moments, once in a cadence on average, instead of regularly.
  bool irregular = false;
  uint64_t seed = 1;

  bool open() const { return rate > 0 || cadence.count() > 0; }
  size_t slots() const { return static_cast<size_t>(rate > 0 ? max_in_flight : concurrency); }
};

struct Due {
  size_t slot = 0;
  Time at{0};
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  // What may be sent now. Its slot is taken until Free.
  virtual std::optional<Due> Next(Time now) = 0;
  virtual void Free(size_t slot) = 0;
  // The moment before which Next has nothing more to give, unless a slot becomes free.
  virtual std::optional<Time> wake() const = 0;
  // Calls due until `end` that Next could not give, because no slot was free for them.
  virtual int64_t Unsent(Time end) = 0;
};

std::unique_ptr<Schedule> MakeSchedule(const Load& load, Time start);

}  // namespace rnnserve::rnnctl::bench
