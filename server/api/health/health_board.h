// SPDX-License-Identifier: Apache-2.0
// Which names serve, and the watchers that wait for a change.
//
//   HealthBoard board;
//   board.Set("rnnserve.v1.Recurrent", true);
//   ...
//   HealthBoard::Watcher watcher(board, "rnnserve.v1.Recurrent");
//   while (const std::optional<Health> health = co_await watcher.NextChange()) Send(*health);
//
// A waiting coroutine resumes on the thread that makes the change.
#pragma once

#include <coroutine>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace rnnserve {

enum class Health { kUnknown, kServing, kNotServing };

class HealthBoard {
 public:
  // Names that have been retired and are still known. A model's name is its owner's choice: a caller that loads and
  // unloads names without end must not make the server grow.
  static constexpr size_t kMostRetired = 1000;

  // From its first Set on a name is known.
  void Set(std::string_view name, bool is_serving);
  // The name stops serving. The board forgets it once kMostRetired others have been retired after it, unless it is set
  // again.
  void Retire(std::string_view name);
  // All names stop serving, also names that are set later.
  void Leave();

  Health Get(std::string_view name) const;

  // Follows one name.
  class Watcher {
   public:
    // Await this only once at a time.
    class Waiting {
     public:
      explicit Waiting(Watcher& watcher) : watcher_(watcher) {}
      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> waiting);
      std::optional<Health> await_resume();

     private:
      Watcher& watcher_;
    };

    // The board outlives it.
    Watcher(HealthBoard& board, std::string name);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    // The present health at first, then whenever it has changed, perhaps back; nullopt once stopped.
    Waiting NextChange() { return Waiting(*this); }
    // From any thread.
    void Stop();

   private:
    friend class HealthBoard;

    HealthBoard& board_;
    const std::string name_;
    // Guarded by the board's mutex.
    std::optional<Health> sent_;
    bool stopped_ = false;
    std::coroutine_handle<> waiting_;
  };

 private:
  using Watchers = std::multimap<std::string_view, Watcher*>;

  Health Find(std::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(std::string_view name, bool is_serving, std::vector<std::coroutine_handle<>>& waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(std::string_view name, std::vector<std::coroutine_handle<>>& waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The caller resumes them without the mutex.
  void TakeWaiting(Watchers::iterator begin, Watchers::iterator end, std::vector<std::coroutine_handle<>>& waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, bool, std::less<>> serving_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> retired_ ABSL_GUARDED_BY(mutex_);  // of serving_, the first one first
  Watchers watchers_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
