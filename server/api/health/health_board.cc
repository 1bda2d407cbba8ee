// SPDX-License-Identifier: Apache-2.0
#include "server/api/health/health_board.h"

#include <utility>

namespace rnnserve {
namespace {

void Resume(const std::vector<std::coroutine_handle<>>& waiting) {
  for (const std::coroutine_handle<>& handle : waiting) handle.resume();
}

}  // namespace

Health HealthBoard::Find(std::string_view name) const {
  const auto found = serving_.find(name);
  if (found == serving_.end()) return Health::kUnknown;
  return found->second && !leaving_ ? Health::kServing : Health::kNotServing;
}

void HealthBoard::TakeWaiting(Watchers::iterator begin, Watchers::iterator end,
                              std::vector<std::coroutine_handle<>>& waiting) {
  for (auto watcher = begin; watcher != end; ++watcher) {
    if (watcher->second->waiting_) waiting.push_back(std::exchange(watcher->second->waiting_, nullptr));
  }
}

void HealthBoard::Put(std::string_view name, bool is_serving, std::vector<std::coroutine_handle<>>& waiting) {
  const Health before = Find(name);
  serving_.insert_or_assign(std::string(name), is_serving);
  std::erase(retired_, name);
  if (Find(name) == before) return;
  const auto [begin, end] = watchers_.equal_range(name);
  TakeWaiting(begin, end, waiting);
}

void HealthBoard::Forget(std::string_view name, std::vector<std::coroutine_handle<>>& waiting) {
  const auto [begin, end] = watchers_.equal_range(name);
  TakeWaiting(begin, end, waiting);
  serving_.erase(serving_.find(name));
}

void HealthBoard::Set(std::string_view name, bool is_serving) {
  std::vector<std::coroutine_handle<>> waiting;
  {
    MutexLock lock(mutex_);
    Put(name, is_serving, waiting);
  }
  Resume(waiting);
}

void HealthBoard::Retire(std::string_view name) {
  std::vector<std::coroutine_handle<>> waiting;
  {
    MutexLock lock(mutex_);
    Put(name, false, waiting);
    retired_.emplace_back(name);
    if (retired_.size() > kMostRetired) {
      Forget(retired_.front(), waiting);
      retired_.pop_front();
    }
  }
  Resume(waiting);
}

void HealthBoard::Leave() {
  std::vector<std::coroutine_handle<>> waiting;
  {
    MutexLock lock(mutex_);
    leaving_ = true;
    for (const auto& [name, serving] : serving_) {
      if (!serving) continue;
      const auto [begin, end] = watchers_.equal_range(name);
      TakeWaiting(begin, end, waiting);
    }
  }
  Resume(waiting);
}

Health HealthBoard::Get(std::string_view name) const {
  MutexLock lock(mutex_);
  return Find(name);
}

HealthBoard::Watcher::Watcher(HealthBoard& board, std::string name) : board_(board), name_(std::move(name)) {
  MutexLock lock(board_.mutex_);
  board_.watchers_.emplace(name_, this);
}

HealthBoard::Watcher::~Watcher() {
  MutexLock lock(board_.mutex_);
  const auto [begin, end] = board_.watchers_.equal_range(name_);
  for (auto watcher = begin; watcher != end; ++watcher) {
    if (watcher->second != this) continue;
    board_.watchers_.erase(watcher);
    return;
  }
}

void HealthBoard::Watcher::Stop() {
  std::coroutine_handle<> waiting;
  {
    MutexLock lock(board_.mutex_);
    stopped_ = true;
    waiting = std::exchange(waiting_, nullptr);
  }
  if (waiting) waiting.resume();
}

bool HealthBoard::Watcher::Waiting::await_suspend(std::coroutine_handle<> waiting) {
  MutexLock lock(watcher_.board_.mutex_);
  if (watcher_.stopped_ || watcher_.sent_ != watcher_.board_.Find(watcher_.name_)) return false;
  watcher_.waiting_ = waiting;
  return true;
}

std::optional<Health> HealthBoard::Watcher::Waiting::await_resume() {
  MutexLock lock(watcher_.board_.mutex_);
  if (watcher_.stopped_) return std::nullopt;
  watcher_.sent_ = watcher_.board_.Find(watcher_.name_);
  return watcher_.sent_;
}

}  // namespace rnnserve
