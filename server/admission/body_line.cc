// SPDX-License-Identifier: Apache-2.0
#include "server/admission/body_line.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rejection.h"

namespace rnnserve {
namespace {

// Between two checks while calls wait: no signal says that memory is free.
constexpr int kLookMs = 2;
// What HTTP/2 receives of a message before the server reads it.
constexpr int64_t kUnaskedBytes = 64 << 10;
// Before the first message has come, one may be as large as this part of the memory.
constexpr int64_t kPartOfUnknown = 8;
// Smaller changes are not reported.
constexpr int64_t kToldBytes = 1 << 20;

}  // namespace

BodyLine::BodyLine(Options options, grpc::CompletionQueue* queue)
    : options_(std::move(options)), queue_(queue), bytes_(options_.max_bytes), line_(options_.max_waiting) {}

void BodyLine::Reservation::Came(int64_t bytes) {
  Entry& entry = *entry_;
  bytes_ = bytes;
  promised_ = std::exchange(entry.memory, 0);
  line_->Settle(entry_);
  line_->SetMessage(entry, Counted(bytes));
  if (MemoryWatch* const memory = line_->options_.memory) {
    // The message has been taken; it is parsed into as much again, whatever had been expected.
    const int64_t more = std::max<int64_t>(2 * bytes - promised_, 0);
    memory->Promise(more);
    memory->Took(bytes);
    promised_ += more - bytes;
  }
  line_->Tell();
}

void BodyLine::Reservation::Parsed() {
  if (line_ == nullptr || line_->options_.memory == nullptr) return;
  line_->options_.memory->Took(bytes_);
  line_->options_.memory->Promise(bytes_ - std::exchange(promised_, 0));
}

bool BodyLine::Enter(Turning& turning) {
  turning.since_ = SteadyNow();
  if (line_.used() == 0 && TakePlace(turning)) return true;
  if (line_.Fits(turning.caller_, 1)) return false;
  turning.status_ =
      Overloaded(Rejection::kMemory,
                 absl::StrCat("the server is short of memory, and ", line_.used(), " calls wait for it to be read, ",
                              line_.held(turning.caller_), " of them this caller's; send this one later"));
  return true;
}

bool BodyLine::TakePlace(Turning& turning) {
  const absl::Time now = SteadyNow();
  ForgetSlow(now);
  MemoryWatch* const memory = options_.memory;
  int64_t message = Counted(turning.sizes_.message.Get());
  int64_t whole = turning.sizes_.whole.Get();
  if (whole == 0 && memory != nullptr) {
    whole = std::min(memory->usable() / kPartOfUnknown, 2 * options_.max_message_bytes);
    message = std::min(whole, options_.max_message_bytes);
  }
  // A call that is alone is always admitted.
  const bool is_alone = reading_.empty() && settled_.empty();
  if (!is_alone && !bytes_.Fits(turning.caller_, message)) return false;
  if (memory != nullptr) {
    if (is_alone) {
      memory->Promise(whole);
    } else if (!memory->TryPromise(whole, now)) {
      return false;
    }
  }
  bytes_.Take(turning.caller_, message);
  turning.reservation_.line_ = this;
  turning.reservation_.entry_ =
      entry_nodes_.Append(reading_, {turning.caller_, message, memory == nullptr ? 0 : whole, now, false});
  Tell();
  return true;
}

void BodyLine::Queue(Turning& turning) {
  std::deque<Turning*>& own = queues_[turning.caller_];
  if (own.empty()) turns_.push_back(turning.caller_);
  own.push_back(&turning);
  line_.Take(turning.caller_, 1);
  Tell();
  SetAlarm();
}

void BodyLine::Leave(Reservation& reservation) {
  Entry& entry = *reservation.entry_;
  SetMessage(entry, 0);
  if (options_.memory != nullptr) options_.memory->Promise(-entry.memory - reservation.promised_);
  entry_nodes_.Erase(reservation.entry_->is_settled ? settled_ : reading_, reservation.entry_);
  reservation.line_ = nullptr;
  Tell();
  if (line_.used() > 0) Move();
}

int64_t BodyLine::Counted(int64_t bytes) { return bytes <= kUnaskedBytes ? 0 : bytes; }

void BodyLine::SetMessage(Entry& entry, int64_t bytes) {
  bytes_.Release(entry.caller, entry.message);
  bytes_.Take(entry.caller, bytes);
  entry.message = bytes;
}

void BodyLine::Settle(Entries::iterator entry) {
  if (std::exchange(entry->is_settled, true)) return;
  settled_.splice(settled_.end(), reading_, entry);
}

void BodyLine::ForgetSlow(absl::Time now) {
  while (!reading_.empty() && now - reading_.front().since >= options_.max_kept) {
    Entry& entry = reading_.front();
    SetMessage(entry, 0);
    if (options_.memory != nullptr) options_.memory->Promise(-std::exchange(entry.memory, 0));
    Settle(reading_.begin());
  }
}

void BodyLine::Move() {
  if (std::exchange(is_moving_, true)) return;  // a resumed call may leave at once
  RefuseLate(SteadyNow());
  while (!turns_.empty()) {
    const uint64_t caller = turns_.front();
    Turning& next = *queues_[caller].front();
    if (!TakePlace(next)) break;
    turns_.pop_front();
    turns_.push_back(caller);
    Resume(next);
  }
  is_moving_ = false;
}

void BodyLine::RefuseLate(absl::Time now) {
  std::vector<Turning*> late;
  for (const auto& [caller, own] : queues_) {
    for (Turning* const waiting : own) {
      if (now - waiting->since_ < options_.max_wait) break;
      late.push_back(waiting);
    }
  }
  for (Turning* const waiting : late) {
    const std::string in_all = options_.memory == nullptr
                                   ? ""
                                   : absl::StrCat(" within the ", options_.memory->limit(), " bytes that it may take");
    waiting->status_ = Overloaded(
        Rejection::kMemory,
        absl::StrCat("the server holds ", bytes_.used(), " of ", bytes_.most(), " bytes of request messages", in_all,
                     ", ", bytes_.held(waiting->caller_), " of them this caller's; send this call later"));
    Resume(*waiting);
  }
}

// It is the first of its caller.
void BodyLine::Resume(Turning& turning) {
  const auto own = queues_.find(turning.caller_);
  own->second.pop_front();
  if (own->second.empty()) {
    queues_.erase(own);
    turns_.erase(std::ranges::find(turns_, turning.caller_));
  }
  line_.Release(turning.caller_, 1);
  turning.waiting_.resume();
}

void BodyLine::Tell() {
  const int64_t bytes = bytes_.used() + line_.used() * kUnaskedBytes;
  if (bytes <= told_ && bytes >= told_ / 2 - kToldBytes) return;
  told_ = bytes + bytes / 4 + kToldBytes;
  options_.let_in(told_);
}

void BodyLine::SetAlarm() {
  if (is_set_) return;
  is_set_ = true;
  const gpr_timespec at = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kLookMs, GPR_TIMESPAN));
  void* const tag = static_cast<CompletionTag*>(this);
  BeforeStart(tag);
  alarm_.Set(queue_, at, tag);
}

void BodyLine::Complete(bool) {
  is_set_ = false;
  Move();
  if (line_.used() > 0) SetAlarm();
}

}  // namespace rnnserve
