// SPDX-License-Identifier: Apache-2.0
// What sessions may take: bytes of all of them together, and sessions, bytes and operations a second of one tenant.
// Bounded by bytes, not by slots; at the limit new sessions are refused, and no live one is dropped to make room.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/rejection.h"
#include "server/admission/memory_watch.h"
#include "server/sessions/contract/clock.h"
#include "server/sessions/contract/rate_limit.h"
#include "server/sessions/contract/session_error.h"

namespace rnnserve {

// A sum that is never above its limit. Thread-safe.
class BoundedSum {
 public:
  // `memory`: of bytes, what the process has room for; outlives the sum. Null: the limit is all there is to it.
  explicit BoundedSum(int64_t limit, MemoryWatch* memory = nullptr) : limit_(limit), memory_(memory) {}

  bool Add(int64_t amount) {
    if (memory_ != nullptr && !memory_->HasRoom(amount)) return false;
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (amount > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + amount, std::memory_order_relaxed));
    return true;
  }
  void Subtract(int64_t amount) { used_.fetch_sub(amount, std::memory_order_relaxed); }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  const int64_t limit_;
  MemoryWatch* const memory_;
  std::atomic<int64_t> used_ = 0;
};

// One tenant's share of the server's bytes. Thread-safe.
class TenantBudget {
 public:
  struct Limits {
    int64_t sessions = 1 << 20;
    int64_t bytes = int64_t{1} << 62;
    // Opens, forks and operations. 0: no limit.
    double operations_per_second = 0;
  };

  TenantBudget(std::string tenant, Limits limits, BoundedSum* server_bytes)
      : tenant_(std::move(tenant)),
        sessions_(limits.sessions),
        bytes_(limits.bytes),
        server_bytes_(server_bytes),
        operations_per_second_(limits.operations_per_second),
        rate_(limits.operations_per_second) {}

  const std::string& tenant() const { return tenant_; }
  int64_t sessions() const { return sessions_.used(); }
  int64_t bytes() const { return bytes_.used(); }

  // One more session, and its bytes; both or nothing.
  absl::Status TakeSession(int64_t bytes) {
    if (!sessions_.Add(1)) {
      return QuotaError("sessions", absl::StrCat("this tenant has ", sessions_.used(),
                                                 " live sessions, as many as it may; "
                                                 "close some, or let them expire"));
    }
    absl::Status taken = TakeBytes(bytes);
    if (!taken.ok()) sessions_.Subtract(1);
    return taken;
  }
  void ReleaseSession(int64_t bytes) {
    sessions_.Subtract(1);
    ReleaseBytes(bytes);
  }

  absl::Status TakeBytes(int64_t bytes) {
    if (!bytes_.Add(bytes)) {
      return QuotaError("session_bytes", absl::StrCat("this tenant's sessions take ", bytes_.used(), " of ",
                                                      bytes_.limit(), " bytes, and this needs ", bytes,
                                                      " more; close sessions, or ask for a smaller window"));
    }
    if (server_bytes_->Add(bytes)) return absl::OkStatus();
    bytes_.Subtract(bytes);
    return Overloaded(
        Rejection::kMemory,
        absl::StrCat("sessions take ", server_bytes_->used(), " of ", server_bytes_->limit(), " bytes, and this needs ",
                     bytes,
                     " more, or the server is close to all that it may take (--memory_limit); ask for a smaller "
                     "window, or come again later"));
  }
  void ReleaseBytes(int64_t bytes) {
    bytes_.Subtract(bytes);
    server_bytes_->Subtract(bytes);
  }

  absl::Status TakeOperation(const MonotonicClock& clock) {
    if (operations_per_second_ <= 0) return absl::OkStatus();
    {
      const MutexLock lock(rate_mutex_);
      if (rate_.Take(clock.Now())) return absl::OkStatus();
    }
    return QuotaError("operations_per_second", absl::StrCat("this tenant may send ", operations_per_second_,
                                                            " operations a second; send this one again later"));
  }

 private:
  const std::string tenant_;
  BoundedSum sessions_;
  BoundedSum bytes_;
  BoundedSum* const server_bytes_;
  const double operations_per_second_;
  Mutex rate_mutex_;
  RateLimit rate_ ABSL_GUARDED_BY(rate_mutex_);
};

}  // namespace rnnserve
