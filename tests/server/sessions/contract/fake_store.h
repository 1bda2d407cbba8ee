// SPDX-License-Identifier: Apache-2.0
// A store that answers when the test says so, and a codec that keeps records as they are.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {

class FakeStore final : public SessionStore {
 public:
  struct Stored {
    StoreFence fence;
    std::string record;
    absl::Duration ttl;
  };

  void Write(WriteRequest request, WriteDone done) override {
    Later([this, request = std::move(request), done = std::move(done)](bool reached) mutable {
      if (!reached) return done(absl::UnavailableError("away"));
      const auto found = records.find(request.id.bytes);
      const bool was_missing = found == records.end();
      if (!was_missing && IsFenced(request, found->second.fence)) return done(absl::AbortedError("fenced"));
      records[request.id.bytes] = {request.fence, request.record, request.ttl};
      ++writes;
      done(Written{was_missing});
    });
  }
  void Take(const SessionId& id, const StoreFence& fence, absl::Time, ReadDone done) override {
    WithRecord(id, std::move(done), [fence](Stored& stored) {
      if (stored.fence.owner == fence.owner) return;
      stored.fence = {std::max(stored.fence.since + 1, fence.since), fence.owner};
    });
  }
  void Read(const SessionId& id, absl::Time, ReadDone done) override {
    WithRecord(id, std::move(done), [](Stored&) {});
  }
  bool IsReachable() const override { return is_there; }

  // Answers the oldest request; one that does not reach the store changes nothing.
  void Answer(bool reached = true) {
    auto request = std::move(requests.front());
    requests.pop_front();
    request(reached);
  }
  void AnswerAll() {
    while (!requests.empty()) Answer(is_there);
  }

  std::map<std::array<uint8_t, 16>, Stored> records;
  std::deque<absl::AnyInvocable<void(bool)>> requests;
  int writes = 0;
  bool is_there = true;
  bool answers_at_once = true;

 private:
  static bool IsFenced(const WriteRequest& request, const StoreFence& fence) {
    return fence.owner != request.fence.owner && (request.create || fence.since >= request.fence.since);
  }
  void WithRecord(const SessionId& id, ReadDone done, std::function<void(Stored&)> act) {
    Later([this, id, done = std::move(done), act = std::move(act)](bool reached) mutable {
      if (!reached) return done(absl::UnavailableError("away"));
      const auto found = records.find(id.bytes);
      if (found == records.end()) return done(absl::NotFoundError("no record"));
      act(found->second);
      done(StoredRecord{found->second.fence, found->second.record});
    });
  }
  void Later(absl::AnyInvocable<void(bool)> request) {
    if (answers_at_once) return request(is_there);
    requests.push_back(std::move(request));
  }
};

class FakeCodec final : public RecordCodec {
 public:
  absl::StatusOr<std::string> Encode(const SessionRecord& record) override {
    records.push_back(record);
    return std::to_string(records.size() - 1);
  }
  absl::StatusOr<SessionRecord> Decode(std::string_view bytes) override {
    size_t place = 0;
    if (!refusal.ok()) return refusal;
    if (!absl::SimpleAtoi(std::string(bytes), &place) || place >= records.size()) {
      return SessionError(absl::StatusCode::kDataLoss, "SESSION_LOST", "damaged");
    }
    return records[place];
  }

  std::vector<SessionRecord> records;
  absl::Status refusal = absl::OkStatus();  // of all records
};

}  // namespace rnnserve
