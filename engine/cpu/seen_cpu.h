// SPDX-License-Identifier: Apache-2.0
// The CPU that a thread was last seen on, for another thread that must not share it: two threads that wait for each
// other there take turns of several milliseconds. The kernel puts a woken thread beside the one that wakes it where no
// CPU is idle at that moment, and leaves it there.
#pragma once

#include <atomic>

namespace rnnserve::cpu {

class SeenCpu {
 public:
  // The calling thread is here.
  void Note();
  // Moves the calling thread to another CPU if it is on this one; whether it moved. About 10 us where it does.
  bool KeepOff() const;

 private:
  std::atomic<int> cpu_{-1};
};

}  // namespace rnnserve::cpu
