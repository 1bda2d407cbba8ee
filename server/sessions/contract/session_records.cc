// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_records.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/steady_now.h"

namespace rnnserve {

absl::Status StoreUnavailable(const absl::Status& why) {
  if (ReasonOf(why)) return why;  // of the codec
  return SessionError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE",
                      absl::StrCat(absl::IsResourceExhausted(why)    ? "the session store is full"
                                   : absl::IsFailedPrecondition(why) ? "the session store refuses the request (the "
                                                                       "server's log says why)"
                                                                     : "the session store gave no answer in time",
                                   ", so this was not applied here; send it again, unchanged"));
}

// A server that cannot draw random numbers must not own records.
StoreFence SessionRecords::DrawFence() {
  StoreFence fence = {.since = static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(absl::Now()), 0))};
  if (RAND_bytes(fence.owner.data(), static_cast<int>(fence.owner.size())) != 1) std::abort();
  return fence;
}

void SessionRecords::Write(WriteRequest request, SessionStore::WriteDone done) {
  absl::StatusOr<std::string> bytes = OrOutOfMemory([&] { return codec_->Encode(request.record); });
  if (!bytes.ok()) return done(bytes.status());
  store_->Write({.id = request.record.key.id,
                 .fence = request.fence,
                 .record = *std::move(bytes),
                 .ttl = request.record.terms.idle_timeout + kTtlMargin,
                 .create = request.create,
                 .deadline = SteadyNow() + std::clamp(request.within, absl::ZeroDuration(), kTimeout)},
                std::move(done));
}

absl::StatusOr<SessionRecord> SessionRecords::Decode(const SessionId& id, const StoredRecord& stored,
                                                     RecordCheck& check) {
  return OrOutOfMemory([&]() -> absl::StatusOr<SessionRecord> {
    absl::StatusOr<SessionRecord> record = codec_->Decode(stored.bytes);
    if (!record.ok()) return record;
    if (record->key.id != id) {
      return SessionError(
          absl::StatusCode::kDataLoss, "SESSION_LOST",
          "the session store has the record of another session under this one's key; open a new session "
          "from a state of your own, or from the start");
    }
    if (absl::Status checked = check(*record); !checked.ok()) return checked;
    return record;
  });
}

void SessionRecords::Read(const SessionId& id, ReadDone done) {
  store_->Read(id, SteadyNow() + kTimeout,
               [this, id, done = std::move(done)](absl::StatusOr<StoredRecord> stored) mutable {
                 if (!stored.ok()) return done(stored.status());
                 RecordCheck any = [](const SessionRecord&) { return absl::OkStatus(); };
                 done(Decode(id, *stored, any));
               });
}

void SessionRecords::Take(const SessionId& id, RecordCheck check, TakeDone done) {
  const absl::Time deadline = SteadyNow() + kTimeout;
  store_->Read(id, deadline,
               [this, id, deadline, check = std::move(check),
                done = std::move(done)](absl::StatusOr<StoredRecord> seen) mutable {
                 if (!seen.ok()) return done(seen.status());
                 absl::StatusOr<SessionRecord> record = Decode(id, *seen, check);
                 if (!record.ok()) return done(record.status());
                 TakeChecked(id, deadline, *std::move(seen), *std::move(record), std::move(check), std::move(done));
               });
}

// The owner may have written meanwhile.
void SessionRecords::TakeChecked(const SessionId& id, absl::Time deadline, StoredRecord seen, SessionRecord record,
                                 RecordCheck check, TakeDone done) {
  store_->Take(id, DrawFence(), deadline,
               [this, id, seen = std::move(seen), record = std::move(record), check = std::move(check),
                done = std::move(done)](absl::StatusOr<StoredRecord> taken) mutable {
                 if (!taken.ok()) return done(taken.status());
                 if (taken->bytes == seen.bytes) return done(Taken{std::move(record), taken->fence});
                 absl::StatusOr<SessionRecord> newer = Decode(id, *taken, check);
                 if (!newer.ok()) return done(newer.status());
                 done(Taken{*std::move(newer), taken->fence});
               });
}

}  // namespace rnnserve
