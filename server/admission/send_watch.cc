// SPDX-License-Identifier: Apache-2.0
#include "server/admission/send_watch.h"

#include <utility>

#include "base/steady_now.h"

namespace rnnserve {
namespace {

// The thread looks this often in the time of patience: rarely enough to cost nothing.
constexpr int kLooks = 8;

}  // namespace

SendWatch::SendWatch(absl::Duration patience) : patience_(patience) {
  if (patience_ != absl::InfiniteDuration()) thread_ = std::thread([this] { Watch(); });
}

SendWatch::~SendWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

SendWatch::Sending::Sending(SendWatch& watch, grpc::ServerContext* context)
    : watch_(watch), context_(context), ends_(SteadyNow() + watch.patience_) {
  bool was_idle = false;
  {
    MutexLock lock(watch_.mutex_);
    before_ = std::exchange(watch_.youngest_, this);
    (before_ != nullptr ? before_->after_ : watch_.oldest_) = this;
    std::swap(was_idle, watch_.idle_);
  }
  if (was_idle) watch_.wake_.notify_one();
}

SendWatch::Sending::~Sending() {
  MutexLock lock(watch_.mutex_);
  (before_ != nullptr ? before_->after_ : watch_.oldest_) = after_;
  (after_ != nullptr ? after_->before_ : watch_.youngest_) = before_;
}

void SendWatch::Watch() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    EndOverdue(SteadyNow());
    idle_ = oldest_ == nullptr;
    if (idle_) {
      wake_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !idle_; });
    } else {
      wake_.wait_for(lock, absl::ToChronoNanoseconds(patience_ / kLooks),
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    }
  }
}

// The mutex is held, so that no Sending's call is destroyed meanwhile.
void SendWatch::EndOverdue(absl::Time now) {
  for (Sending* next = oldest_; next != nullptr && next->ends_ <= now; next = next->after_) {
    if (!std::exchange(next->is_cancelled_, true)) next->context_->TryCancel();
  }
}

}  // namespace rnnserve
