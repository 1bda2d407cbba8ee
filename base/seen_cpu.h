// SPDX-License-Identifier: Apache-2.0
// The CPU that a thread was last seen on, for another thread that must not share it. The kernel puts a woken thread
// beside the one that wakes it where no CPU is idle at that moment, and leaves it there for long: two threads that wait
// for each other then take turns of several milliseconds, and two that do not have one CPU's time.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>

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

  // The same for another thread, `asleep`, before it is woken: it wakes up elsewhere, where the kernel might have put
  // it behind this one, beside an idle CPU. Until it calls Restore its mask lacks this CPU; false where nothing was
  // done.
  bool KeepOff(pthread_t asleep, cpu_set_t& before) const;
  // On that thread: the mask is as `before`.
  static void Restore(const cpu_set_t& before);

 private:
  std::atomic<int> cpu_{-1};
};

}  // namespace rnnserve
