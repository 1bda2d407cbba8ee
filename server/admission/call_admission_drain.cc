// SPDX-License-Identifier: Apache-2.0
// CallAdmission: how a drain closes it and waits.
#include "base/steady_now.h"
#include "server/admission/call_admission.h"

namespace rnnserve {

int64_t CallAdmission::calls() const {
  MutexLock lock(mutex_);
  return calls_.used();
}

void CallAdmission::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

bool CallAdmission::WaitEmpty(absl::Time deadline) {
  MutexLock lock(mutex_);
  const auto enough = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_.used() == 0 || wait_cancelled_; };
  if (deadline == absl::InfiniteFuture()) {
    changed_.wait(lock, enough);
  } else {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(deadline - SteadyNow()), enough);
  }
  return calls_.used() == 0;
}

bool CallAdmission::WaitCancelled(absl::Duration most) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(most),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return wait_cancelled_; });
  return wait_cancelled_;
}

void CallAdmission::CancelWait() {
  MutexLock lock(mutex_);
  wait_cancelled_ = true;
  changed_.notify_all();
}

}  // namespace rnnserve
