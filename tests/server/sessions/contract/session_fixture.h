// SPDX-License-Identifier: Apache-2.0
// Sessions with a clock that stands still until it is moved, and an "engine" that the test itself is: an operation is
// computed when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "server/sessions/contract/memory_sessions.h"

namespace rnnserve {

class FakeClock final : public MonotonicClock {
 public:
  absl::Duration Now() const override { return now_; }
  void Move(absl::Duration by) { now_ += by; }

 private:
  absl::Duration now_ = absl::Seconds(1000);
};

// Counts those that are alive.
class CountedState final : public State {
 public:
  explicit CountedState(int64_t held) : value(held) { ++alive; }
  ~CountedState() override { --alive; }
  const int64_t value;
  static inline int alive = 0;
};

class TextReply final : public KeptReply {
 public:
  explicit TextReply(std::string said) : text(std::move(said)) {}
  int64_t bytes() const override { return static_cast<int64_t>(text.size()); }
  const std::string text;
};

// Whatever an operation was told, and its lease while it has one.
struct Told {
  std::optional<Lease> lease;
  std::vector<Outcome> outcomes;
  int granted = 0;

  bool answered() const { return !outcomes.empty(); }
  const Outcome& outcome() const { return outcomes.at(0); }
  std::string text() const { return static_cast<const TextReply&>(*outcome().reply).text; }
  absl::StatusCode code() const { return outcome().status.code(); }
  std::string reason() const { return ReasonOf(outcome().status).value_or(""); }
};
using ToldPtr = std::shared_ptr<Told>;

class SessionFixture : public ::testing::Test {
 protected:
  // A test may end with an operation still computing: its entry holds its callback, that the lease, and the lease the
  // session. Dropping a lease grants the next in the queue, so all are asked until none holds one.
  void TearDown() override {
    for (bool dropped = true; dropped;) {
      dropped = false;
      for (const ToldPtr& told : told_) {
        dropped = dropped || told->lease.has_value();
        told->lease.reset();
      }
    }
  }

  static SessionStatePtr StateOf(int64_t value, int64_t bytes = 100) {
    auto state = std::make_shared<SessionState>();
    state->handles.push_back(std::make_shared<CountedState>(value));
    state->bytes = bytes;
    return state;
  }
  static int64_t ValueOf(const SessionStatePtr& state) {
    return static_cast<const CountedState&>(*state->handles.at(0)).value;
  }

  MemorySessions& sessions() {
    if (sessions_ == nullptr) sessions_ = std::make_unique<MemorySessions>(options_, &clock_);
    return *sessions_;
  }

  OpenSpec Spec() {
    OpenSpec spec;
    spec.tenant = "t";
    spec.subject = std::make_shared<SessionSubject>();
    spec.state = StateOf(0);
    spec.terms.window = {4, 1000};
    spec.terms.max_in_flight = 4;
    return spec;
  }
  SessionPtr Open() { return OpenWith(Spec()); }
  SessionPtr OpenWith(OpenSpec spec) {
    absl::StatusOr<OpenedSession> opened = sessions().Open(std::move(spec));
    EXPECT_TRUE(opened.ok()) << opened.status();
    key_ = opened->key;
    return opened->session;
  }

  struct Op {
    std::optional<uint64_t> number = {};
    uint64_t content = 0;
    Attachment attachment = kNoAttachment;
    int64_t reply_bytes = 10;
    absl::Duration deadline = absl::InfiniteDuration();
    bool closes = false;
    absl::Status fault = absl::OkStatus();
    std::optional<uint64_t> owner_epoch = {};
  };
  ToldPtr Send(const SessionPtr& session, Op op) {
    auto told = std::make_shared<Told>();
    told_.push_back(told);
    Claim claim;
    claim.number = op.number;
    claim.digest = {op.content, 0};
    claim.attachment = op.attachment;
    claim.reply_bytes = op.reply_bytes;
    claim.deadline = op.deadline;
    claim.closes = op.closes;
    claim.fault = op.fault;
    claim.owner_epoch = op.owner_epoch;
    claim.granted = [told](Lease lease) {
      ++told->granted;
      told->lease.emplace(std::move(lease));
    };
    claim.done = [told](Outcome outcome) { told->outcomes.push_back(std::move(outcome)); };
    sessions().Acquire(session, std::move(claim));
    return told;
  }
  // Commits with a state of `value` and a reply of that text.
  static void Commit(const ToldPtr& told, int64_t value, bool closes = false, int64_t state_bytes = 100) {
    ASSERT_TRUE(told->lease.has_value());
    Change change;
    change.state = StateOf(value, state_bytes);
    change.position = told->lease->numbers().position + 1;
    change.reply = std::make_shared<TextReply>(std::to_string(value));
    change.closes = closes;
    Lease lease = *std::move(told->lease);
    told->lease.reset();
    std::move(lease).Commit(std::move(change));
  }
  static void Fail(const ToldPtr& told, absl::Status status) {
    ASSERT_TRUE(told->lease.has_value());
    Lease lease = *std::move(told->lease);
    told->lease.reset();
    std::move(lease).Fail(std::move(status));
  }
  // Sends and commits number `number` with content = value = number.
  ToldPtr Apply(const SessionPtr& session, uint64_t number, Attachment attachment = kNoAttachment) {
    ToldPtr told = Send(session, {.number = number, .content = number, .attachment = attachment});
    Commit(told, static_cast<int64_t>(number));
    return told;
  }

  struct Seen {
    std::optional<absl::StatusOr<Snapshot>> snapshot;
  };
  std::shared_ptr<Seen> Read(const SessionPtr& session, std::optional<uint64_t> after = {}, bool in_order = false,
                             std::string checkpoint = "") {
    auto seen = std::make_shared<Seen>();
    ReadRequest read;
    read.after_number = after;
    read.in_order = in_order;
    read.checkpoint = std::move(checkpoint);
    read.done = [seen](absl::StatusOr<Snapshot> snapshot) { seen->snapshot.emplace(std::move(snapshot)); };
    sessions().Read(session, std::move(read));
    return seen;
  }
  int64_t StateValue(const SessionPtr& session) { return ValueOf((**Read(session)->snapshot).state); }

  MemorySessions::Options options_;
  FakeClock clock_;
  std::unique_ptr<MemorySessions> sessions_;
  std::string key_;            // of the last Open
  std::vector<ToldPtr> told_;  // of every Send
};

}  // namespace rnnserve
