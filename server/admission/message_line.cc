// SPDX-License-Identifier: Apache-2.0
#include "server/admission/message_line.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rejection.h"
#include "base/status_macros.h"
#include "base/steady_now.h"

namespace rnnserve {
namespace {

// Between two looks while calls or streams wait: no signal says that memory is free.
constexpr int kLookMs = 2;
// What HTTP/2 receives of a message before the server reads it, at least.
constexpr int64_t kUnaskedBytes = 64 << 10;
// A call's message, and what it is parsed into; CallSizes knows of replies. A stream's: its reply as well, twice.
constexpr int64_t kTimesOfCalls = 2;
constexpr int64_t kTimesOfStreams = 4;
// Before the first message has come, one may take this part of the memory.
constexpr int64_t kPartOfUnknown = 8;
// Smaller changes are not reported.
constexpr int64_t kReportStep = 1 << 20;

// Small messages arrive unasked, and do not count.
int64_t Counted(int64_t bytes) { return bytes <= kUnaskedBytes ? 0 : bytes; }

}  // namespace

MessageLine::MessageLine(Options options, CallAdmission* admission, grpc::CompletionQueue* queue)
    : options_(std::move(options)),
      admission_(admission),
      memory_(admission->memory()),
      queue_(queue),
      of_streams_(options_.kind == Kind::kStreams),
      times_message_(of_streams_ ? kTimesOfStreams : kTimesOfCalls),
      bytes_(options_.max_bytes),
      line_(options_.max_waiting) {}

MessageLine::Expected MessageLine::Expect(const Reservation& reservation) const {
  if (reservation.usual_ >= 0) return {reservation.usual_, times_message_ * reservation.usual_};
  const int64_t message = reservation.sizes_.message.Get();
  const int64_t memory = std::max(reservation.sizes_.whole.Get(), times_message_ * message);
  if (memory > 0 || memory_ == nullptr) return {message, memory};
  const int64_t unknown = std::min(memory_->usable() / kPartOfUnknown, times_message_ * options_.max_message_bytes);
  return {of_streams_ ? unknown / times_message_ : std::min(unknown, options_.max_message_bytes), unknown};
}

bool MessageLine::TryPlace(Reservation& reservation, absl::Time now) {
  const Expected expected = Expect(reservation);
  if (of_streams_ && expected.message <= kUnaskedBytes) return true;
  ForgetSlow(now);
  const bool is_alone = holding_ == 0;  // always admitted
  if (!is_alone && !bytes_.Fits(reservation.caller_, Counted(expected.message))) return false;
  if (memory_ != nullptr) {
    if (is_alone) {
      memory_->Promise(expected.memory);
    } else if (!memory_->TryPromise(expected.memory, now)) {
      return false;
    }
    reservation.promised_ = expected.memory;
  }
  SetMessage(reservation, expected.message);
  reservation.since_ = now;
  reservation.holds_ = reservation.has_place_ = reservation.is_reading_ = true;
  reservation.reading_ = reading_.insert(reading_.end(), &reservation);
  ++holding_;
  Report();
  return true;
}

void MessageLine::SetMessage(Reservation& reservation, int64_t bytes) {
  bytes_.Release(reservation.caller_, reservation.counted_);
  reservation.counted_ = Counted(bytes);
  bytes_.Take(reservation.caller_, reservation.counted_);
}

void MessageLine::Release(Reservation& reservation) {
  if (std::exchange(reservation.is_reading_, false)) reading_.erase(reservation.reading_);
  if (std::exchange(reservation.has_place_, false)) --holding_;
  late_bytes_ -= std::exchange(reservation.late_, 0);
  SetMessage(reservation, 0);
  const int64_t promised = std::exchange(reservation.promised_, 0);
  if (promised > 0) memory_->Promise(-promised);
}

void MessageLine::ForgetSlow(absl::Time now) {
  while (!reading_.empty() && now - reading_.front()->since_ >= options_.max_kept) {
    Reservation& slow = *reading_.front();
    const int64_t late = slow.counted_;
    Release(slow);
    late_bytes_ += slow.late_ = late;
  }
}

MessageLine::Coroutines MessageLine::TakeNext(absl::Time now) {
  Coroutines next;
  RefuseLate(now, next);
  while (!turns_.empty()) {
    const uint64_t caller = turns_.front();
    if (!TryPlace(*waiting_[caller].front(), now)) break;
    std::rotate(turns_.begin(), turns_.begin() + 1, turns_.end());
    next.push_back(TakeFirst(caller));
  }
  Report();
  return next;
}

void MessageLine::RefuseLate(absl::Time now, Coroutines& next) {
  if (options_.max_wait == absl::InfiniteDuration()) return;
  const std::vector<uint64_t> callers(turns_.begin(), turns_.end());
  for (const uint64_t caller : callers) {
    while (waiting_.contains(caller) && now - waiting_[caller].front()->since_ >= options_.max_wait) {
      const std::string in_all =
          memory_ == nullptr ? "" : absl::StrCat(" within the ", memory_->limit(), " bytes that it may take");
      waiting_[caller].front()->status_ =
          Overloaded(Rejection::kMemory, absl::StrCat("the server holds ", bytes_.used(), " of ", bytes_.most(),
                                                      " bytes of request messages", in_all, ", ", bytes_.held(caller),
                                                      " of them this caller's; send this call later"));
      next.push_back(TakeFirst(caller));
    }
  }
}

std::coroutine_handle<> MessageLine::TakeFirst(uint64_t caller) {
  const auto own = waiting_.find(caller);
  const std::coroutine_handle<> first = own->second.front()->waiting_;
  own->second.pop_front();
  if (own->second.empty()) {
    waiting_.erase(own);
    turns_.erase(std::ranges::find(turns_, caller));
  }
  line_.Release(caller, 1);
  return first;
}

void MessageLine::Move() {
  Coroutines next;
  {
    const MutexLock lock(mutex_);
    next = TakeNext(SteadyNow());
  }
  for (const std::coroutine_handle<>& waiting : next) waiting.resume();
}

void MessageLine::Report() {
  // A slow call or stream may still send its message.
  const int64_t admitted = std::max(bytes_.used(), std::min(bytes_.used() + late_bytes_, options_.max_bytes));
  const int64_t bytes = admitted + line_.used() * kUnaskedBytes;
  if (bytes <= reported_bytes_ && bytes >= reported_bytes_ / 2 - kReportStep) return;
  reported_bytes_ = bytes + bytes / 4 + kReportStep;
  options_.on_admitted_bytes(reported_bytes_);
}

void MessageLine::SetAlarm() {
  if (is_set_) return;
  is_set_ = true;
  const gpr_timespec at = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kLookMs, GPR_TIMESPAN));
  void* const tag = static_cast<CompletionTag*>(this);
  BeforeStart(tag);
  alarm_.Set(queue_, at, tag);
}

void MessageLine::Complete(bool) {
  Move();
  const MutexLock lock(mutex_);
  is_set_ = false;
  if (line_.used() > 0) SetAlarm();
}

bool Reservation::HasTurn() {
  if (line_.of_streams_ && usual_ >= 0 && usual_ <= kUnaskedBytes) return true;
  const absl::Time now = SteadyNow();
  const MutexLock lock(line_.mutex_);
  if (line_.turns_.empty() && line_.TryPlace(*this, now)) return true;
  since_ = now;
  if (line_.line_.Fits(caller_, 1)) return false;
  status_ = Overloaded(Rejection::kMemory, absl::StrCat("the server is short of memory, and ", line_.line_.used(),
                                                        " calls wait for it to be read, ", line_.line_.held(caller_),
                                                        " of them this caller's; send this one later"));
  return true;
}

void Reservation::Wait(std::coroutine_handle<> waiting) {
  const MutexLock lock(line_.mutex_);
  waiting_ = waiting;
  std::deque<Reservation*>& own = line_.waiting_[caller_];
  if (own.empty()) line_.turns_.push_back(caller_);
  own.push_back(this);
  line_.line_.Take(caller_, 1);
  line_.Report();
  line_.SetAlarm();
}

bool Reservation::Arrived(int64_t bytes) {
  if (!holds_ && usual_ >= 0 && bytes <= kUnaskedBytes) return false;
  holds_ = true;
  const MutexLock lock(line_.mutex_);
  const int64_t expected = std::exchange(promised_, 0);
  if (std::exchange(is_reading_, false)) line_.reading_.erase(reading_);
  if (!std::exchange(has_place_, true)) ++line_.holding_;
  line_.late_bytes_ -= std::exchange(late_, 0);
  line_.SetMessage(*this, bytes_ = bytes);
  sizes_.SawMessage(bytes, SteadyNow());
  usual_ = std::max(bytes, usual_ / 2);
  if (MemoryWatch* const memory = line_.memory_) {
    // The message has been taken; it is parsed into as much again, whatever had been expected.
    const int64_t whole = std::max(expected, line_.times_message_ * bytes);
    memory->Promise(whole - expected);
    memory->Took(bytes);
    promised_ = whole - bytes;
  }
  line_.Report();
  return promised_ > 0;
}

absl::Status Reservation::Came(int64_t bytes, bool even_if_closed) {
  Arrived(bytes);
  ASSIGN_OR_RETURN(CallAdmission::InFlight entered,
                   line_.admission_->Enter(caller_, bytes, even_if_closed, /*has_memory=*/true));
  in_flight_.emplace(std::move(entered));
  return absl::OkStatus();
}

absl::StatusOr<CallAdmission::InFlight> Reservation::MessageCame(int64_t bytes) {
  const bool has_memory = Arrived(bytes);
  return line_.admission_->Enter(caller_, bytes, /*even_if_closed=*/true, has_memory);
}

void Reservation::Parsed() {
  if (!holds_) return;
  const MutexLock lock(line_.mutex_);
  if (promised_ > 0 && !is_reading_) {
    // The rest of the promise is what is parsed, which the process has now, and what is promised elsewhere.
    line_.memory_->Took(bytes_);
    line_.memory_->Promise(bytes_ - std::exchange(promised_, 0));
  }
  if (!line_.of_streams_) return;
  // Waiting streams look a moment later: what comes of this message needs memory first.
  holds_ = false;
  line_.Release(*this);
  line_.Report();
}

Reservation::~Reservation() {
  if (!holds_) return;
  bool calls_wait = false;
  {
    const MutexLock lock(line_.mutex_);
    line_.Release(*this);
    line_.Report();
    calls_wait = !line_.of_streams_ && !line_.turns_.empty();
  }
  if (calls_wait) line_.Move();
}

}  // namespace rnnserve
