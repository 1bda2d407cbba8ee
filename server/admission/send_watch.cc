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

SendWatch::Sending::Sending(SendWatch& watch, grpc::ServerContext* context) : watch_(watch) {
  const absl::Time ends = SteadyNow() + watch_.patience_;
  bool was_idle = false;
  {
    MutexLock lock(watch_.mutex_);
    place_ = watch_.entries_.insert(watch_.entries_.end(), {context, ends, false});
    std::swap(was_idle, watch_.idle_);
  }
  if (was_idle) watch_.wake_.notify_one();
}

SendWatch::Sending::~Sending() {
  MutexLock lock(watch_.mutex_);
  watch_.entries_.erase(place_);
}

void SendWatch::Watch() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    EndOverdue(SteadyNow());
    idle_ = entries_.empty();
    if (idle_) {
      wake_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !idle_; });
    } else {
      wake_.wait_for(lock, absl::ToChronoNanoseconds(patience_ / kLooks),
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
    }
  }
}

// With the mutex held, so that no entry's call is destroyed meanwhile.
void SendWatch::EndOverdue(absl::Time now) {
  for (Entry& entry : entries_) {
    if (entry.ended) continue;  // stays until its Sending is destroyed
    if (entry.ends > now) return;
    entry.context->TryCancel();
    entry.ended = true;
  }
}

}  // namespace rnnserve
