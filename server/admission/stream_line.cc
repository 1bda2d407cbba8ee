// SPDX-License-Identifier: Apache-2.0
#include "server/admission/stream_line.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>

#include "base/steady_now.h"

namespace rnnserve {
namespace {

// Between two looks while streams wait: memory comes free without a signal.
constexpr int kStreamLookMs = 2;
// What HTTP/2 receives of a message before the server reads it.
constexpr int64_t kUnaskedOfStream = 64 << 10;
// A message, what it is parsed into, what comes of it, and that as it is sent.
constexpr int64_t kTimesMessage = 4;
// Before the first message of all has come, one may be as large as this part of the memory.
constexpr int64_t kPartOfFirst = 8 * kTimesMessage;
// Smaller changes are not reported.
constexpr int64_t kToldStreamBytes = 1 << 20;

}  // namespace

int64_t StreamLine::Expected(const Reservation& reservation) const {
  if (reservation.usual_ >= 0) return reservation.usual_;
  const int64_t others = largest_.Get();
  if (others > 0 || options_.memory == nullptr) return others;
  return std::min(options_.memory->usable() / kPartOfFirst, options_.max_message_bytes);
}

bool StreamLine::TryTake(Reservation& reservation, absl::Time now) {
  const int64_t bytes = Expected(reservation);
  if (bytes <= kUnaskedOfStream) return true;
  ForgetIdle(now);
  const bool is_alone = asked_.empty();  // may always come in
  if (!is_alone && bytes > options_.max_bytes - bytes_) return false;
  if (MemoryWatch* const memory = options_.memory) {
    const int64_t wanted = kTimesMessage * bytes;
    if (is_alone) {
      memory->Promise(wanted);
    } else if (!memory->TryPromise(wanted, now)) {
      return false;
    }
    reservation.promised_ = wanted;
  }
  reservation.bytes_ = bytes;
  bytes_ += bytes;
  reservation.since_ = now;
  reservation.holds_ = true;
  reservation.is_asked_ = true;
  reservation.asked_ = asked_.insert(asked_.end(), &reservation);
  Tell();
  return true;
}

void StreamLine::Release(Reservation& reservation, int64_t bytes) {
  if (std::exchange(reservation.is_asked_, false)) asked_.erase(reservation.asked_);
  late_bytes_ -= std::exchange(reservation.late_, 0);
  bytes_ += bytes - std::exchange(reservation.bytes_, bytes);
  const int64_t promised = std::exchange(reservation.promised_, 0);
  if (options_.memory != nullptr && promised > 0) options_.memory->Promise(-promised);
}

void StreamLine::ForgetIdle(absl::Time now) {
  while (!asked_.empty() && now - asked_.front()->since_ >= options_.max_kept) {
    Reservation& reservation = *asked_.front();
    const int64_t late = reservation.bytes_;
    Release(reservation, 0);
    late_bytes_ += reservation.late_ = late;
  }
}

std::vector<std::coroutine_handle<>> StreamLine::TakeNext() {
  std::vector<std::coroutine_handle<>> next;
  const absl::Time now = SteadyNow();
  while (!turns_.empty()) {
    const uint64_t caller = turns_.front();
    std::deque<Turning*>& own = waiting_[caller];
    if (!TryTake(own.front()->reservation_, now)) break;
    next.push_back(own.front()->waiting_);
    own.pop_front();
    turns_.pop_front();
    if (own.empty()) {
      waiting_.erase(caller);
    } else {
      turns_.push_back(caller);
    }
    --waiting_streams_;
  }
  return next;
}

void StreamLine::Move() {
  std::vector<std::coroutine_handle<>> next;
  {
    const MutexLock lock(mutex_);
    next = TakeNext();
    Tell();
  }
  for (const std::coroutine_handle<>& waiting : next) waiting.resume();
}

void StreamLine::Tell() {
  // A stream that was asked may still send its message.
  const int64_t asked = std::max(bytes_, std::min(bytes_ + late_bytes_, options_.max_bytes));
  const int64_t bytes = asked + waiting_streams_ * kUnaskedOfStream;
  if (bytes <= told_ && bytes >= told_ / 2 - kToldStreamBytes) return;
  told_ = bytes + bytes / 4 + kToldStreamBytes;
  options_.let_in(told_);
}

void StreamLine::SetAlarm() {
  if (is_set_) return;
  is_set_ = true;
  const gpr_timespec at = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kStreamLookMs, GPR_TIMESPAN));
  void* const tag = static_cast<CompletionTag*>(this);
  BeforeStart(tag);
  alarm_.Set(queue_, at, tag);
}

void StreamLine::Complete(bool) {
  Move();
  const MutexLock lock(mutex_);
  is_set_ = false;
  if (waiting_streams_ > 0) SetAlarm();
}

// Whether the next message needs no room, or has it.
bool StreamLine::Turning::await_ready() {
  if (reservation_.usual_ >= 0 && reservation_.usual_ <= kUnaskedOfStream) return true;
  StreamLine& line = reservation_.line_;
  const MutexLock lock(line.mutex_);
  return line.turns_.empty() && line.TryTake(reservation_, SteadyNow());
}

bool StreamLine::Turning::await_suspend(std::coroutine_handle<> waiting) {
  StreamLine& line = reservation_.line_;
  waiting_ = waiting;
  const MutexLock lock(line.mutex_);
  std::deque<Turning*>& own = line.waiting_[reservation_.caller_];
  if (own.empty()) line.turns_.push_back(reservation_.caller_);
  own.push_back(this);
  ++line.waiting_streams_;
  line.Tell();
  line.SetAlarm();
  return true;
}

void StreamLine::Reservation::Came(int64_t bytes) {
  if (!holds_ && bytes <= kUnaskedOfStream && usual_ >= 0) return;
  holds_ = true;
  const MutexLock lock(line_.mutex_);
  line_.Release(*this, bytes);
  line_.largest_.Saw(bytes, SteadyNow());
  usual_ = std::max(bytes, usual_ / 2);
  if (MemoryWatch* const memory = line_.options_.memory) {
    promised_ = (kTimesMessage - 1) * bytes;
    memory->Promise(promised_ + bytes);
    memory->Took(bytes);
  }
  line_.Tell();
}

// Waiting streams look a moment later: what comes of this message needs memory first.
void StreamLine::Reservation::Parsed() {
  if (!std::exchange(holds_, false)) return;
  const MutexLock lock(line_.mutex_);
  if (promised_ > 0 && !is_asked_) {
    line_.options_.memory->Promise(bytes_);
    line_.options_.memory->Took(bytes_);
  }
  line_.Release(*this, 0);
  line_.Tell();
}

}  // namespace rnnserve
