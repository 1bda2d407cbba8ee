// SPDX-License-Identifier: Apache-2.0
#include "server/admission/call_admission.h"

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/rejection.h"

namespace rnnserve {

absl::Status CallAdmission::IsOpen(bool even_if_closed) const {
  MutexLock lock(mutex_);
  return IsOpenLocked(even_if_closed);
}

absl::Status CallAdmission::IsOpenLocked(bool even_if_closed) const {
  if (!closed_ || even_if_closed) return absl::OkStatus();
  return WithReason(absl::UnavailableError("the server is shutting down; send the request to another one or later"),
                    "DRAINING");
}

absl::StatusOr<CallAdmission::InFlight> CallAdmission::Enter(uint64_t caller, int64_t bytes, bool even_if_closed,
                                                             bool has_memory) {
  MutexLock lock(mutex_);
  if (absl::Status open = IsOpenLocked(even_if_closed); !open.ok()) return open;
  if (!calls_.Fits(caller, 1)) {
    return Overloaded(Rejection::kQueueFull, absl::StrCat("the server is busy with ", calls_.used(), " calls, ",
                                                          calls_.held(caller), " of them this caller's, and takes ",
                                                          calls_.most(), " at once; send this one later"));
  }
  if (!bytes_.Fits(caller, bytes)) {
    return Overloaded(
        Rejection::kMemory,
        absl::StrCat("the server holds ", bytes_.used(), " of ", bytes_.most(), " bytes of request messages, ",
                     bytes_.held(caller), " of them this caller's, and this one has ", bytes, "; send it later"));
  }
  // They are parsed into as many bytes again. A caller that comes alone may always enter.
  const int64_t promised = has_memory || memory_ == nullptr ? 0 : bytes;
  if (promised > 0 && calls_.used() == 0) {
    memory_->Promise(promised);
  } else if (promised > 0 && !memory_->TryPromise(promised)) {
    return Overloaded(Rejection::kMemory, absl::StrCat("the server is close to the ", memory_->limit(),
                                                       " bytes that it may take; send this call later"));
  }
  calls_.Take(caller, 1);
  bytes_.Take(caller, bytes);
  return InFlight(this, caller, bytes, promised);
}

void CallAdmission::Leave(const InFlight& call) {
  MutexLock lock(mutex_);
  calls_.Release(call.caller_, 1);
  bytes_.Release(call.caller_, call.bytes_);
  if (call.promised_ > 0) memory_->Promise(-call.promised_);
  // Under the lock: the waiting thread may destroy this object as soon as it has the lock.
  if (calls_.used() == 0) changed_.notify_all();
}

}  // namespace rnnserve
