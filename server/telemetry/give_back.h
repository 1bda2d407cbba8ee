// SPDX-License-Identifier: Apache-2.0
// An allocator keeps what a thread has freed, for that thread. When memory is short, each thread that works for long is
// asked to give back what it keeps, and does so between two pieces of work.
//
//   AskToGiveBack();        // anybody
//   GiveBackIfAsked();      // each thread, where it holds no lock; one load while no release is asked for
#pragma once

#include <atomic>
#include <cstdint>

namespace rnnserve {

// Set before there are other threads: what gives back what the calling thread keeps. Null: nothing does.
inline std::atomic<void (*)()> give_back_kept = nullptr;

inline std::atomic<uint32_t> give_back_asked = 0;

inline void AskToGiveBack() { give_back_asked.fetch_add(1, std::memory_order_relaxed); }

inline void GiveBackIfAsked() {
  thread_local uint32_t answered = 0;
  const uint32_t asked = give_back_asked.load(std::memory_order_relaxed);
  if (asked == answered) return;
  answered = asked;
  if (void (*const give_back)() = give_back_kept.load(std::memory_order_relaxed)) give_back();
}

}  // namespace rnnserve
