// SPDX-License-Identifier: Apache-2.0
// Where records of sessions live beyond this process: the seam that server/store implements.
//
//   store.Take(id, fence, deadline, [](absl::StatusOr<StoredRecord> taken) { ... });   // this process owns it now
//   store.Write({.id = id, .fence = taken->fence, .record = bytes, .ttl = ttl},
//               [](absl::StatusOr<Written> written) { ... });
//
// A record has one owner at a time, named by its fence; each takeover draws a new one, so the former owner's writes
// fail. A store compares the fence and acts in one step. It does not look into a record's bytes.
//
// Thread-safe; nothing blocks. Each `done` is called exactly once, on a thread of the store or of the caller, with no
// lock held, and at the latest soon after the deadline. A caller has at most one request in flight for a session.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/contract/session_key.h"

namespace rnnserve {

// Names the process that owns a record, since one takeover.
struct StoreFence {
  // When that was, in microseconds of the wall clock; later than all takeovers before, whatever the clocks say. Where a
  // store has lost a takeover (a failover to older data), the later owner prevails.
  uint64_t since = 0;
  std::array<uint8_t, 16> owner = {};  // random

  friend bool operator==(const StoreFence&, const StoreFence&) = default;
};

struct StoredRecord {
  StoreFence fence;  // of its owner
  std::string bytes;
};

class SessionStore {
 public:
  struct WriteRequest {
    SessionId id;
    StoreFence fence = {};
    std::string record = {};  // bounded by the caller
    absl::Duration ttl = absl::Minutes(10);
    // This process has not had a record of it: another process' stays, whatever the fences say.
    bool create = false;
    absl::Time deadline = absl::InfiniteFuture();  // of the steady clock, as base/steady_now.h gives it
  };
  struct Written {
    bool was_missing = false;  // there was no record
  };
  using WriteDone = absl::AnyInvocable<void(absl::StatusOr<Written>)>;
  using ReadDone = absl::AnyInvocable<void(absl::StatusOr<StoredRecord>)>;

  virtual ~SessionStore() = default;

  // OK: the store has the record. ABORTED: another process owns it, and what it has stays. (A store that repeats writes
  // after a lost connection may have written it before that process took the record over.) A record that is gone
  // (expired, or lost by the store) is written anew, and so is that of an owner before this one. UNAVAILABLE: no answer
  // before the deadline, or the store is away; the write may have happened, and repeating it is safe.
  // RESOURCE_EXHAUSTED: the store, or the queue to it, is full; nothing changed. FAILED_PRECONDITION: the store refuses
  // the request (no permission, another type of key, a command it lacks); nothing changed, and the log says why.
  virtual void Write(WriteRequest request, WriteDone done) = 0;
  // Makes `fence`, with a later `since` if need be, the owner of the record of `id`, and returns it. NOT_FOUND: there
  // is none. The other errors as above; repeating it with the same fence is safe.
  virtual void Take(const SessionId& id, const StoreFence& fence, absl::Time deadline, ReadDone done) = 0;
  // Returns the record and leaves it to its owner. Errors as of Take.
  virtual void Read(const SessionId& id, absl::Time deadline, ReadDone done) = 0;
  // Whether the last exchange with the store succeeded, for health and metrics.
  virtual bool IsReachable() const = 0;
};

}  // namespace rnnserve
