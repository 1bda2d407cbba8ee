// SPDX-License-Identifier: Apache-2.0
#include "server/store/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>

namespace rnnserve {

EventLoop::EventLoop(std::function<absl::Time()> now)
    : now_(std::move(now)), epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = 0}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

EventLoop::~EventLoop() {
  close(wake_);
  close(epoll_);
}

void EventLoop::Post(Task task) {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    if (stopped_) return;
    tasks_.push_back(std::move(task));
    wake = std::exchange(sleeps_, false);
  }
  if (wake) eventfd_write(wake_, 1);
}

void EventLoop::Stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  eventfd_write(wake_, 1);
}

uint64_t EventLoop::Watch(int fd, OnReady ready) {
  const uint64_t watch = next_id_++;
  watches_.emplace(watch, std::make_shared<OnReady>(std::move(ready)));
  epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = watch}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  return watch;
}

void EventLoop::Unwatch(uint64_t watch, int fd) {
  if (watches_.erase(watch) > 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::Timer EventLoop::At(absl::Time time, Task task) {
  const Timer timer(time, next_id_++);
  timers_.emplace(timer, std::move(task));
  return timer;
}

int EventLoop::Wait() const {
  if (timers_.empty()) return -1;
  const absl::Duration left = absl::Ceil(timers_.begin()->first.first - now_(), absl::Milliseconds(1));
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 0, 60'000));
}

void EventLoop::RunTimers() {
  const absl::Time now = now_();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto due = timers_.extract(timers_.begin());
    due.mapped()();
  }
}

void EventLoop::Run() {
  std::array<epoll_event, 64> events;
  std::vector<Task> tasks;
  while (true) {
    {
      const MutexLock lock(mutex_);
      tasks.swap(tasks_);
      if (stopped_) return;  // what is left goes now: it may hold what holds the loop
      sleeps_ = tasks.empty();
    }
    for (Task& task : tasks) task();
    const int wait = tasks.empty() ? Wait() : 0;
    tasks.clear();

    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait);
    {
      const MutexLock lock(mutex_);
      sleeps_ = false;
    }
    for (const epoll_event& event : std::span(events).first(static_cast<size_t>(std::max(count, 0)))) {
      if (event.data.u64 == 0) {
        eventfd_t ignored = 0;
        eventfd_read(wake_, &ignored);
        continue;
      }
      const auto found = watches_.find(event.data.u64);
      if (found == watches_.end()) continue;  // ended by another handler of this round
      const std::shared_ptr<OnReady> ready = found->second;
      (*ready)(event.events);
    }
    RunTimers();
  }
}

}  // namespace rnnserve
