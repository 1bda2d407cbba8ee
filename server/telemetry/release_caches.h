// SPDX-License-Identifier: Apache-2.0
// An allocator keeps the memory that a thread has freed, for that thread. When memory is short, each long-lived thread
// returns its freed memory to the kernel, between two pieces of work.
//
//   AskToReleaseCaches();        // any thread
//   ReleaseCachesIfAsked();      // each thread, where it holds no lock; one load while no release is asked for
#pragma once

#include <atomic>
#include <cstdint>

namespace rnnserve {

// Set before other threads exist: returns the memory that the calling thread's allocator keeps. Null: nothing does.
inline std::atomic<void (*)()> release_caches = nullptr;

inline std::atomic<uint32_t> release_caches_asked = 0;

inline void AskToReleaseCaches() { release_caches_asked.fetch_add(1, std::memory_order_relaxed); }

inline void ReleaseCachesIfAsked() {
  thread_local uint32_t answered = 0;
  const uint32_t asked = release_caches_asked.load(std::memory_order_relaxed);
  if (asked == answered) return;
  answered = asked;
  if (void (*const release)() = release_caches.load(std::memory_order_relaxed)) release();
}

}  // namespace rnnserve
