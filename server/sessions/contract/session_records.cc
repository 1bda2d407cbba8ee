// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_records.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/steady_now.h"

namespace rnnserve {

absl::Status StoreUnavailable(const absl::Status& why) {
  if (ReasonOf(why)) return why;  // of the codec
  return SessionError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE",
                      absl::StrCat(absl::IsResourceExhausted(why) ? "the session store is full"
                                                                  : "the session store gave no answer in time",
                                   ", so this was not applied here; send it again, unchanged"));
}

// A server that cannot draw random numbers must not own records.
StoreFence SessionRecords::DrawFence() {
  StoreFence fence;
  if (RAND_bytes(fence.data(), static_cast<int>(fence.size())) != 1) std::abort();
  return fence;
}

void SessionRecords::Write(const SessionRecord& record, const StoreFence& fence, absl::Duration within,
                           WriteDone done) {
  absl::StatusOr<std::string> bytes = OrOutOfMemory([&] { return codec_->Encode(record); });
  if (!bytes.ok()) return done(bytes.status());
  const absl::Duration ttl = record.terms.idle_timeout + kTtlMargin;
  store_->Write({.id = record.key.id,
                 .fence = fence,
                 .record = *std::move(bytes),
                 .ttl = ttl,
                 .deadline = SteadyNow() + std::clamp(within, absl::ZeroDuration(), kTimeout)},
                std::move(done));
}

void SessionRecords::Take(const SessionId& id, const StoreFence& fence, TakeDone done) {
  store_->Take(id, fence, SteadyNow() + kTimeout,
               [codec = codec_, done = std::move(done)](absl::StatusOr<std::string> bytes) mutable {
                 if (!bytes.ok()) return done(bytes.status());
                 done(OrOutOfMemory([&] { return codec->Decode(*bytes); }));
               });
}

}  // namespace rnnserve
