// SPDX-License-Identifier: Apache-2.0
// std::mutex, its lock and condition variable, annotated for clang's -Wthread-safety: a member says which mutex guards
// it, a function which one its caller holds, and ./test.sh lint fails where that is not so. (Debian's absl::Mutex is
// not instrumented: ThreadSanitizer would report races on data that is locked correctly.)
//
//   Mutex mutex_;
//   int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
//   void AddLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
//
//   MutexLock lock(mutex_);
//   changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ > 0; });
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace rnnserve {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex until its destruction, except between unlock() and lock().
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// As std::condition_variable, for MutexLock.
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }
  void wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  template <class Predicate>
  void wait(MutexLock& lock, Predicate enough) {
    changed_.wait(lock.lock_, std::move(enough));
  }
  template <class Duration>
  std::cv_status wait_for(MutexLock& lock, const Duration& most) {
    return changed_.wait_for(lock.lock_, most);
  }
  template <class Time>
  std::cv_status wait_until(MutexLock& lock, const Time& end) {
    return changed_.wait_until(lock.lock_, end);
  }
  template <class Duration, class Predicate>
  bool wait_for(MutexLock& lock, const Duration& most, Predicate enough) {
    return changed_.wait_for(lock.lock_, most, std::move(enough));
  }

 private:
  std::condition_variable changed_;
};

}  // namespace rnnserve
