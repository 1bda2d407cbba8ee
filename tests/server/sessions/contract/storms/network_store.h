// SPDX-License-Identifier: Apache-2.0
// A store behind a network: one for all replicas, which serves a request at a time, and a line to it for each replica,
// whose requests wait while the store is away and are repeated if their reply is lost, as server/store does.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/sessions/contract/session_records.h"
#include "tests/server/sessions/contract/storms/events.h"
#include "tests/server/sessions/contract/storms/terms.h"

namespace rnnserve::storms {

// Keeps records as they are, under a text of as many bytes as a real one has.
class PaddedCodec final : public RecordCodec {
 public:
  explicit PaddedCodec(size_t bytes) : bytes_(bytes) {}
  absl::StatusOr<std::string> Encode(const SessionRecord& record) override;
  absl::StatusOr<SessionRecord> Decode(std::string_view bytes) override;
  const SessionRecord& At(std::string_view bytes) const;

 private:
  const size_t bytes_;
  std::vector<SessionRecord> records_;
};

class StoreNode {
 public:
  StoreNode(const Terms& terms, Events* events, const PaddedCodec* codec, Figures* figures)
      : terms_(terms), events_(events), codec_(codec), figures_(figures) {}

  // Nothing is served, and replies on their way are lost, for so long.
  void GoAway(absl::Duration within);
  bool is_away() const { return away_until_ > events_->Now(); }
  absl::Duration away_until() const { return away_until_; }
  // Grows with each time that it went away.
  int epoch() const { return epoch_; }

  // When a request that arrives now is carried out.
  absl::Duration NextTurn();
  // `serial` grows with the writes of a process: an earlier one that comes after a later one is refused.
  absl::StatusOr<SessionStore::Written> Write(const SessionStore::WriteRequest& request, uint64_t serial);
  absl::StatusOr<StoredRecord> Take(const SessionId& id, const StoreFence& fence);
  absl::StatusOr<StoredRecord> Read(const SessionId& id);

 private:
  struct Stored {
    StoreFence fence;
    std::string record;
    std::string before;
    uint64_t serial = 0;
  };

  const Terms& terms_;
  Events* const events_;
  const PaddedCodec* const codec_;
  Figures* const figures_;
  std::map<std::array<uint8_t, 16>, Stored> records_;
  absl::Duration away_until_ = absl::ZeroDuration();
  absl::Duration busy_until_ = absl::ZeroDuration();
  int epoch_ = 0;
};

class StoreLine final : public SessionStore {
 public:
  // `deliver` runs what the replica's process is to do, now or later.
  using Deliver = std::function<void(absl::AnyInvocable<void()>)>;
  StoreLine(const Terms& terms, Events* events, StoreNode* node, Figures* figures, Deliver deliver)
      : terms_(terms), events_(events), node_(node), figures_(figures), deliver_(std::move(deliver)) {}

  void Write(WriteRequest request, WriteDone done) override;
  void Take(const SessionId& id, const StoreFence& fence, absl::Time deadline, ReadDone done) override;
  void Read(const SessionId& id, absl::Time deadline, ReadDone done) override;
  bool IsReachable() const override { return !node_->is_away(); }

  // The replica's process is gone: what has left it arrives, and nothing else leaves it.
  void Cut();
  // Answers everything, as the sessions need before they go.
  void AnswerAll();

 private:
  struct Request {
    std::function<absl::AnyInvocable<void()>(StoreNode&)> carry_out;  // gives what tells the answer
    absl::AnyInvocable<void(absl::Status)> refuse;
    int64_t bytes = 0;
    bool is_answered = false;
    std::list<std::shared_ptr<Request>>::iterator place = {};
  };
  using RequestPtr = std::shared_ptr<Request>;

  // `ask` asks the store; its answer goes to `done`, or a refusal does.
  template <typename Answer>
  void Start(std::function<absl::StatusOr<Answer>(StoreNode&)> ask, int64_t bytes, absl::Time deadline,
             absl::AnyInvocable<void(absl::StatusOr<Answer>)> done);
  void Queue(const RequestPtr& request, absl::Time deadline);
  void Send(const RequestPtr& request);
  void Arrive(const RequestPtr& request);
  // False: it has been answered before.
  bool Leave(const RequestPtr& request);
  void Count(int64_t requests, int64_t bytes);
  absl::Duration Latency() { return events_->Between(terms_.least_latency, terms_.most_latency); }

  const Terms& terms_;
  Events* const events_;
  StoreNode* const node_;
  Figures* const figures_;
  const Deliver deliver_;
  std::list<RequestPtr> unanswered_;
  int64_t bytes_ = 0;
  uint64_t serial_ = 0;
  bool is_cut_ = false;
};

}  // namespace rnnserve::storms
