// SPDX-License-Identifier: Apache-2.0
// The CPU that a thread was last seen on, for another thread that must not share it. The kernel puts a woken thread
// beside the one that wakes it where no CPU is idle at that moment, and leaves it there for milliseconds, even if
// another CPU is idle soon after: two threads that wait for each other then take turns, and two that do not have one
// CPU's time.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <optional>

namespace rnnserve {

class SeenCpu {
 public:
  // The calling thread is here, until it forgets it.
  void Note();
  void Forget() { cpu_.store(-1, std::memory_order_relaxed); }

  // Whether the calling thread is on this CPU.
  bool IsHere() const;
  // If so, moves the calling thread to another CPU that it may run on; whether it moved, and false where it may run
  // nowhere else. About 10 us where it moves. The thread's mask is narrowed for the move and is as before afterwards:
  // if it had none of its own, it goes on to follow what its cpuset allows. A mask that something else sets within
  // these microseconds is lost.
  bool KeepOff() const;

  // Takes this CPU out of the mask of another thread, `asleep`, which then wakes up on another one. Gives the mask as
  // it was, which that thread calls Restore with once it is awake; null where it may run nowhere else. A mask that
  // something else sets until then is lost.
  std::optional<cpu_set_t> KeepOff(pthread_t asleep) const;
  static void Restore(const cpu_set_t& before);

 private:
  std::atomic<int> cpu_{-1};
};

}  // namespace rnnserve
