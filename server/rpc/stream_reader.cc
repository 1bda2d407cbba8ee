// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_reader.h"

#include <grpc/support/time.h>

#include <algorithm>

#include "base/steady_now.h"

namespace rnnserve {

void StreamReader::StopAt(grpc::CompletionQueue* queue, absl::Time at, absl::Duration pause) {
  const MutexLock lock(mutex_);
  queue_ = queue;
  stop_at_ = at;
  pause_ = pause;
  SetAlarm(std::min(at, SteadyNow() + pause));
}

void StreamReader::SetAlarm(absl::Time at) {
  const int64_t millis = absl::ToInt64Milliseconds(at - SteadyNow());
  const gpr_timespec when =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(millis > 0 ? millis : 0, GPR_TIMESPAN));
  void* const tag = static_cast<CompletionTag*>(&alarm_done_);
  is_alarm_set_ = true;
  BeforeStart(tag);
  alarm_.Set(queue_, when, tag);
}

bool StreamReader::Read(std::coroutine_handle<> waiting) {
  void* const tag = static_cast<CompletionTag*>(&read_done_);
  const MutexLock lock(mutex_);
  has_message_ = false;
  if (given_up_) return false;
  next_ = waiting;
  is_reading_ = true;
  if (pause_ != absl::InfiniteDuration()) reading_since_ = SteadyNow();
  BeforeStart(tag);
  stream_->Read(&message_, tag);
  return true;
}

bool StreamReader::has_message() const {
  const MutexLock lock(mutex_);
  return has_message_ && !given_up_;
}

void StreamReader::ReadDone(bool ok) {
  MutexLock lock(mutex_);
  is_reading_ = false;
  has_message_ = ok;
  GoOn(lock);
}

void StreamReader::AlarmDone(bool ok) {
  MutexLock lock(mutex_);
  is_alarm_set_ = false;
  if (ok && !is_over_) {  // else Over has cancelled it
    const absl::Time now = SteadyNow();
    const absl::Time due = std::min(stop_at_, (is_reading_ ? reading_since_ : now) + pause_);
    if (now < due) return SetAlarm(due);
    given_up_ = true;
  }
  GoOn(lock);
}

bool StreamReader::WaitForEnd(std::coroutine_handle<> waiting) {
  const MutexLock lock(mutex_);
  if (!is_reading_ && !is_alarm_set_) return false;
  end_ = waiting;
  return true;
}

void StreamReader::GoOn(MutexLock& lock) {
  std::coroutine_handle<> waiting = std::exchange(next_, nullptr);
  if (!waiting && !is_reading_ && !is_alarm_set_) waiting = std::exchange(end_, nullptr);
  if (!waiting) return;
  lock.unlock();
  waiting.resume();
}

}  // namespace rnnserve
