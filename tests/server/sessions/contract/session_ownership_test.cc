// SPDX-License-Identifier: Apache-2.0
// The owner of a durable session where a store loses records or falls back to older ones, and where a server cannot
// take one over.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/sessions/contract/durable_fixture.h"

namespace rnnserve {
namespace {

class SessionOwnershipTest : public DurableFixture {
 protected:
  // The session on the first server with number 1, and on the second one, where calls go then, with number 2.
  void MoveAfterOne() {
    old_ = OpenDurable(Durability::kSync);
    Apply(old_, 1);
    older_records_ = store_.records;
    Switch();
    newer_ = *Find(key_);
    Apply(newer_, 2);
  }

  SessionPtr old_;
  SessionPtr newer_;
  decltype(FakeStore::records) older_records_;
};

TEST_F(SessionOwnershipTest, TheLaterOwnerPrevailsOverOlderDataOfTheStore) {
  MoveAfterOne();
  store_.records = older_records_;
  EXPECT_TRUE(Apply(newer_, 3)->outcome().status.ok());
  Switch();
  EXPECT_EQ(Send(old_, {.number = 4})->reason(), "TAKEN_OVER");
  EXPECT_EQ(Applied(*Find(key_)), 3u);
}

TEST_F(SessionOwnershipTest, TheLaterOwnerPrevailsOverAnOldCopyInAnEmptyStore) {
  MoveAfterOne();
  store_.records.clear();
  Switch();
  EXPECT_EQ(Send(old_, {.number = 3})->reason(), "NUMBER_TOO_HIGH");
  EXPECT_EQ(store_.records.size(), 1u) << "the old copy is the record";
  Switch();
  EXPECT_TRUE(Apply(newer_, 3)->outcome().status.ok());
  Switch();
  EXPECT_EQ(Send(old_, {.number = 4})->reason(), "TAKEN_OVER");
  EXPECT_EQ(Applied(*Find(key_)), 3u);
}

// A clock that is ahead must not make a new session replace one that another server has just made.
TEST_F(SessionOwnershipTest, OfTwoNewSessionsOfANameOneStays) {
  store_.answers_at_once = false;
  std::vector<absl::StatusOr<OpenedSession>> opened;
  std::vector<absl::Status> written(2, absl::UnknownError("not answered"));
  for (size_t server = 0; server < 2; ++server) {
    OpenSpec spec = Spec();
    spec.terms.durability = Durability::kSync;
    spec.name = "n";
    opened.push_back(sessions().Open(std::move(spec)));
    ASSERT_TRUE(opened.back().ok());
    opened.back()->session->Persist([&, server](absl::Status status) { written[server] = std::move(status); });
    Switch();
  }
  store_.AnswerAll();
  EXPECT_TRUE(written[0].ok()) << written[0];
  EXPECT_EQ(ReasonOf(written[1]), "TAKEN_OVER");
}

TEST_F(SessionOwnershipTest, AServerThatCannotReadARecordLeavesItToItsOwner) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  Apply(session, 1);
  codec_.refusal = SessionError(absl::StatusCode::kFailedPrecondition, "MODEL_MISSING", "no such model");
  Switch();
  EXPECT_EQ(ReasonOf(Find(key_).status()), "MODEL_MISSING");
  Switch();
  codec_.refusal = absl::OkStatus();
  EXPECT_TRUE(Apply(session, 2)->outcome().status.ok());
  session->Persist([](const absl::Status& written) { EXPECT_TRUE(written.ok()) << written; });
  EXPECT_EQ(session->view().durable_number, 2u);
}

TEST_F(SessionOwnershipTest, AServerWithoutRoomLeavesTheSessionToItsOwner) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  options_.tenant.sessions = 0;
  other_ = std::make_unique<MemorySessions>(options_, &clock_);
  other_->UseRecords(&records_);
  Switch();
  EXPECT_EQ(Find(key_).status().code(), absl::StatusCode::kResourceExhausted);
  Switch();
  EXPECT_TRUE(Apply(session, 1)->outcome().status.ok());
}

TEST_F(SessionOwnershipTest, AnOwnerMayWriteBetweenALookAndATakeover) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  Apply(session, 1);
  Switch();
  store_.answers_at_once = false;
  SessionPtr taken;
  ASSERT_TRUE(IsElsewhere(sessions().Find(key_, "t").status()));
  sessions().Fetch(key_, "t", [&](absl::StatusOr<SessionPtr> fetched) { taken = *std::move(fetched); });
  store_.Answer();  // the look
  store_.answers_at_once = true;
  Switch();
  Apply(session, 2);
  store_.Answer();  // the takeover
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(Applied(taken), 2u);
}

TEST_F(SessionOwnershipTest, AnOperationThatComputesKeepsItsStateWhenTheSessionMoves) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  Apply(session, 1);
  const ToldPtr computing = Send(session, {.number = 2, .content = 2});
  Switch();
  Apply(*Find(key_), 1);
  Switch();
  session->Persist([](const absl::Status& written) { EXPECT_EQ(ReasonOf(written), "TAKEN_OVER"); });
  EXPECT_EQ(computing->reason(), "TAKEN_OVER");
  ASSERT_TRUE(computing->lease.has_value());
  ASSERT_NE(computing->lease->state(), nullptr);
  EXPECT_EQ(ValueOf(computing->lease->state()), 1);
  Commit(computing, 2);
  Switch();
  EXPECT_EQ(Applied(*Find(key_)), 1u);
}

TEST_F(SessionOwnershipTest, AnOldCopyThatExpiresDoesNotEndTheSession) {
  const SessionPtr old = OpenDurable(Durability::kSync);
  const std::string key = key_;
  const absl::Duration idle = old->terms().idle_timeout;
  Switch();
  const SessionPtr taken = *Find(key);
  const auto pass = [&](absl::Duration time, uint64_t* number) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(1)) {
      clock_.Move(absl::Seconds(1));
      if (number != nullptr) Apply(taken, ++*number);
      sessions().Sweep();
      other_->Sweep();
    }
  };
  uint64_t number = 0;
  pass(idle + absl::Seconds(2), &number);
  EXPECT_FALSE(old->view().live);
  Switch();
  const absl::StatusOr<SessionPtr> back = Find(key);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Applied(*back), number);
  // Once it has expired everywhere, and its record, too, it has ended, and is not lost.
  pass(idle + absl::Seconds(2), nullptr);
  store_.records.clear();
  EXPECT_EQ(EndCauseOf(Find(key).status()), "expired");
}

// No record has what it applied, so another server applies these numbers, too.
TEST_F(SessionOwnershipTest, AFormerOwnerDoesNotTellThatANumberIsTooOld) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  for (uint64_t number = 1; number <= 12; ++number) Apply(session, number);
  Switch();
  const SessionPtr taken = *Find(key_);
  Apply(taken, 1);
  Switch();
  EXPECT_EQ(Send(session, {.number = 2, .content = 2})->reason(), "TAKEN_OVER");
  const SessionPtr back = *Find(key_);
  EXPECT_EQ(Applied(back), 0u) << "INTERVAL: what no record has is sent again";
  for (uint64_t number = 1; number <= 12; ++number) Apply(back, number);
  EXPECT_EQ(Send(back, {.number = 2, .content = 2})->reason(), "NUMBER_TOO_OLD") << "of the owner";
}

TEST_F(SessionOwnershipTest, AnOpenWithoutAttachLeavesALiveSessionToItsOwner) {
  const absl::StatusOr<OpenedSession> made = Attach("n");
  Switch();
  EXPECT_EQ(ReasonOf(OpenNamed("n", false).status()), "NAME_TAKEN");
  Switch();
  EXPECT_TRUE(Apply(made->session, 1)->outcome().status.ok());
  Commit(Send(made->session, {.number = 2, .closes = true}), 0, /*closes=*/true);
  Switch();
  EXPECT_TRUE(OpenNamed("n", false).ok());
}

// A session that is closed, and opened again under its name by another server.
TEST_F(SessionOwnershipTest, ANameOpenedAgainIsFoundFromEachServer) {
  const absl::StatusOr<OpenedSession> first = Attach("n");
  Commit(Send(first->session, {.number = 1, .closes = true}), 0, /*closes=*/true);
  Switch();
  const absl::StatusOr<OpenedSession> second = Attach("n");
  ASSERT_TRUE(second.ok()) << second.status();
  Apply(second->session, 1);
  EXPECT_EQ(ReasonOf(Find(first->key).status()), "SESSION_ENDED") << "where the new one lives";
  EXPECT_TRUE(second->session->view().live);
  Switch();
  EXPECT_EQ(Send(*Find(first->key), {.number = 2})->reason(), "SESSION_ENDED") << "where it lingers";
  clock_.Move(options_.linger);
  sessions().Sweep();
  EXPECT_EQ(EndCauseOf(Find(first->key).status()), "closed") << "where it was closed";
  const absl::StatusOr<SessionPtr> found = Find(second->key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Applied(*found), 1u);
}

TEST_F(SessionOwnershipTest, ANameOpenedAgainIsFoundBesideAnOldCopy) {
  const absl::StatusOr<OpenedSession> old = Attach("n");
  Switch();
  const absl::StatusOr<OpenedSession> first = Attach("n");
  Commit(Send(first->session, {.number = 1, .closes = true}), 0, /*closes=*/true);
  const absl::StatusOr<OpenedSession> second = Attach("n");
  Apply(second->session, 1);
  Switch();
  EXPECT_TRUE(old->session->view().live);
  EXPECT_EQ(ReasonOf(Find(second->key).status()), "TAKEN_OVER") << "the copy finds out";
  const absl::StatusOr<SessionPtr> found = Find(second->key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Applied(*found), 1u);
}

TEST_F(SessionOwnershipTest, TheEndOfASessionIsNotThatOfOneBeforeIt) {
  const absl::StatusOr<OpenedSession> first = Attach("n");
  Commit(Send(first->session, {.number = 1, .closes = true}), 0, /*closes=*/true);
  const absl::StatusOr<OpenedSession> second = Attach("n");
  Apply(second->session, 1);
  Commit(Send(second->session, {.number = 2, .closes = true}), 0, /*closes=*/true);
  Switch();
  const absl::Status ended = Find(first->key).status();
  EXPECT_EQ(EndCauseOf(ended), "unknown");
  EXPECT_FALSE(NumbersOf(ended).has_value());
  EXPECT_EQ(NumbersOf(Find(second->key).status())->last_applied, 2u);
}

TEST_F(SessionOwnershipTest, ARecordUnderAnotherKeyIsNotTaken) {
  Apply(OpenDurable(Durability::kSync), 1);
  const std::string key = key_;
  const SessionPtr other = OpenDurable(Durability::kSync);
  Apply(other, 1);
  FakeStore::Stored& mixed_up = store_.records[SessionKey::Parse(key)->id.bytes];
  mixed_up.record = store_.records[other->key().id.bytes].record;
  Apply(other, 2);
  Switch();
  EXPECT_EQ(ReasonOf(Find(key).status()), "SESSION_LOST");
  EXPECT_EQ(sessions().live(), 0);
  EXPECT_EQ(Applied(*Find(key_)), 2u);
}

TEST_F(SessionOwnershipTest, ForksTakeNamesThatAreFreeOnAllServers) {
  const absl::StatusOr<OpenedSession> live = Attach("live");
  const absl::StatusOr<OpenedSession> closed = Attach("closed");
  Commit(Send(closed->session, {.number = 1, .closes = true}), 0, /*closes=*/true);
  Switch();
  const SessionPtr parent = OpenDurable(Durability::kSync);
  const auto fork = [&](std::vector<std::string> names) {
    ForkSpec spec = {.tenant = "t", .count = static_cast<int64_t>(names.size()), .names = std::move(names)};
    std::optional<absl::StatusOr<ForkedSessions>> told;
    sessions().Fork(parent, std::move(spec), [&](absl::StatusOr<ForkedSessions> forked) { told = std::move(forked); });
    return *told;
  };
  EXPECT_EQ(ReasonOf(fork({"new", "live"}).status()), "NAME_TAKEN");
  EXPECT_EQ(sessions().live(), 1) << "all or none";
  const absl::StatusOr<ForkedSessions> forked = fork({"new", "closed"});
  ASSERT_TRUE(forked.ok()) << forked.status();
  for (const std::string& key : forked->keys) {
    (*Find(key))->Persist([](const absl::Status& written) { EXPECT_TRUE(written.ok()) << written; });
  }
  Switch();
  EXPECT_TRUE(live->session->view().live);
  for (const std::string& key : forked->keys) EXPECT_TRUE(Find(key).ok());
}

TEST_F(SessionOwnershipTest, OneLostRecordMakesTheServerWriteAll) {
  std::vector<SessionPtr> sessions_here;
  for (int k = 0; k < 1000; ++k) sessions_here.push_back(OpenDurable(Durability::kSync));
  store_.records.clear();
  Apply(sessions_here[0], 1);
  EXPECT_EQ(store_.records.size(), 1u);
  store_.answers_at_once = false;
  sessions().Sweep();
  EXPECT_LE(store_.requests.size(), 256u) << "callers have a place in the queue, too";
  sessions().Sweep();
  store_.AnswerAll();
  EXPECT_EQ(store_.records.size(), 1000u);
  // Another run finds that none is missing, and is the last one.
  const int writes = store_.writes;
  for (int k = 0; k < 4; ++k) {
    sessions().Sweep();
    store_.AnswerAll();
  }
  EXPECT_EQ(store_.writes, writes + 1000);
}

TEST_F(SessionOwnershipTest, AReadWaitsForItsOwnWriteBesideAnOperationInAHurry) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  store_.answers_at_once = false;
  const ToldPtr told = Send(session, {.number = 1, .deadline = clock_.Now() + absl::Milliseconds(1)});
  Commit(told, 1);
  const auto seen = Read(session);
  store_.Answer(/*reached=*/false);
  EXPECT_EQ(told->reason(), "STORE_UNAVAILABLE");
  EXPECT_FALSE(seen->snapshot.has_value());
  store_.AnswerAll();
  ASSERT_TRUE(seen->snapshot.has_value());
  EXPECT_TRUE(seen->snapshot->ok()) << seen->snapshot->status();
}

}  // namespace
}  // namespace rnnserve
