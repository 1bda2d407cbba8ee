// SPDX-License-Identifier: Apache-2.0
// Durable sessions of two servers that share a store (sessions.md, section 5).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/sessions/contract/durable_fixture.h"

namespace rnnserve {
namespace {

using SessionDurableTest = DurableFixture;

TEST_F(SessionDurableTest, SyncAnswersOnceTheStoreHasIt) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  store_.answers_at_once = false;
  const ToldPtr told = Send(session, {.number = 1, .content = 1});
  Commit(told, 1);
  EXPECT_FALSE(told->answered());
  EXPECT_EQ(Applied(session), 0u);
  store_.Answer();
  ASSERT_TRUE(told->answered());
  EXPECT_TRUE(told->outcome().status.ok());
  EXPECT_EQ(told->outcome().durable_number, 1u);
  EXPECT_EQ(Applied(session), 1u);
}

TEST_F(SessionDurableTest, SyncWithoutTheStoreAppliesNothingAndGoesOnWithIt) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  store_.is_there = false;
  const int64_t bytes = sessions().bytes();
  const ToldPtr told = Apply(session, 1);
  EXPECT_EQ(told->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(told->reason(), "STORE_UNAVAILABLE");
  EXPECT_EQ(Applied(session), 0u);
  EXPECT_EQ(sessions().bytes(), bytes);
  store_.is_there = true;
  EXPECT_TRUE(Apply(session, 1)->outcome().status.ok());
  EXPECT_EQ(StateValue(session), 1);
}

TEST_F(SessionDurableTest, AnotherServerGoesOnWhereThisOneWas) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  const std::string key = key_;
  Apply(session, 1);
  Apply(session, 2);
  Switch();
  const absl::StatusOr<SessionPtr> taken = Find(key);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(Applied(*taken), 2u);
  EXPECT_EQ(StateValue(*taken), 2);
  // The last reply came along: its repetition is answered, with nothing computed.
  const ToldPtr repeated = Send(*taken, {.number = 2, .content = 2});
  EXPECT_EQ(repeated->granted, 0);
  EXPECT_TRUE(repeated->outcome().repeated);
  EXPECT_EQ(repeated->text(), "2");
  EXPECT_TRUE(Apply(*taken, 3)->outcome().status.ok());
}

TEST_F(SessionDurableTest, TheFormerOwnerIsFencedAndGoesOnFromTheStore) {
  const SessionPtr old = OpenDurable(Durability::kSync);
  const std::string key = key_;
  Apply(old, 1);
  Switch();
  Apply(*Find(key), 2);
  Switch();
  // It has not heard of number 2, so the same number with another content reaches its engine, but never a caller.
  const ToldPtr late = Send(old, {.number = 2, .content = 9});
  Commit(late, 9);
  EXPECT_EQ(late->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(late->reason(), "TAKEN_OVER");
  EXPECT_EQ(sessions().live(), 0);
  const absl::StatusOr<SessionPtr> again = Find(key);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(StateValue(*again), 2);
  EXPECT_TRUE(Apply(*again, 3)->outcome().status.ok());
}

TEST_F(SessionDurableTest, ANumberTooHighMayBeRightElsewhere) {
  const SessionPtr old = OpenDurable(Durability::kSync);
  const std::string key = key_;
  Apply(old, 1);
  EXPECT_EQ(Send(old, {.number = 5, .content = 5})->reason(), "NUMBER_TOO_HIGH");
  Switch();
  Apply(*Find(key), 2);
  Switch();
  EXPECT_EQ(Send(old, {.number = 3, .content = 3})->reason(), "TAKEN_OVER");
  EXPECT_TRUE(Apply(*Find(key), 3)->outcome().status.ok());
}

TEST_F(SessionDurableTest, ClaimsBehindOneThatAsksTheStoreKeepTheirOrder) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  store_.answers_at_once = false;
  const ToldPtr high = Send(session, {.number = 2, .content = 2});
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  EXPECT_FALSE(high->answered() || first->lease.has_value());
  store_.AnswerAll();
  EXPECT_EQ(high->reason(), "NUMBER_TOO_HIGH");
  EXPECT_TRUE(first->lease.has_value());
}

TEST_F(SessionDurableTest, IntervalWritesEverySoManyOperations) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  const int before = store_.writes;
  for (uint64_t number = 1; number < kOperationsARecord; ++number) {
    EXPECT_EQ(Apply(session, number)->outcome().durable_number, 0u);
  }
  EXPECT_EQ(store_.writes, before);
  Apply(session, kOperationsARecord);
  EXPECT_EQ(store_.writes, before + 1);
  EXPECT_EQ(Apply(session, kOperationsARecord + 1)->outcome().durable_number, kOperationsARecord);
}

TEST_F(SessionDurableTest, IntervalWritesAfterAWhile) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  const std::string key = key_;
  Apply(session, 1);
  clock_.Move(kTimeARecord / 2);
  sessions().EndTimeouts();
  EXPECT_EQ(session->view().durable_number, 0u);
  clock_.Move(kTimeARecord / 2);
  sessions().EndTimeouts();
  EXPECT_EQ(session->view().durable_number, 1u);
  // What no record has is to be sent again.
  Apply(session, 2);
  Switch();
  const SessionPtr taken = *Find(key);
  EXPECT_EQ(Applied(taken), 1u);
  EXPECT_EQ(Send(taken, {.number = 3, .content = 3})->reason(), "NUMBER_TOO_HIGH");
  EXPECT_TRUE(Apply(taken, 2)->outcome().status.ok());
}

TEST_F(SessionDurableTest, IntervalHoldsBackWhileTheStoreIsAway) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  store_.is_there = false;
  for (uint64_t number = 1; number <= kMostUndurable; ++number) {
    ASSERT_TRUE(Apply(session, number)->outcome().status.ok()) << number;
  }
  EXPECT_EQ(Send(session, {.number = kMostUndurable + 1})->reason(), "STORE_BEHIND");
  store_.is_there = true;
  clock_.Move(kTimeARecord);
  sessions().EndTimeouts();
  EXPECT_TRUE(Apply(session, kMostUndurable + 1)->outcome().status.ok());
}

TEST_F(SessionDurableTest, IntervalTakesNumberedOperationsOnly) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  EXPECT_EQ(Send(session, {})->reason(), "NUMBER_MISSING");
}

TEST_F(SessionDurableTest, AnOldCopyTellsNoState) {
  const SessionPtr old = OpenDurable(Durability::kSync);
  Apply(old, 1);
  Switch();
  Apply(*Find(key_), 2);
  Switch();
  EXPECT_EQ(ReasonOf(Read(old)->snapshot->status()), "TAKEN_OVER");
  EXPECT_EQ(StateValue(*Find(key_)), 2);
}

TEST_F(SessionDurableTest, WithoutTheStoreIntervalTellsItsStateAndSyncDoesNot) {
  const SessionPtr sync = OpenDurable(Durability::kSync), interval = OpenDurable(Durability::kInterval);
  store_.is_there = false;
  EXPECT_EQ(ReasonOf(Read(sync)->snapshot->status()), "STORE_UNAVAILABLE");
  EXPECT_EQ(StateValue(interval), 0);
}

TEST_F(SessionDurableTest, ClosedIsClosedEverywhere) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  const std::string key = key_;
  store_.answers_at_once = false;
  const ToldPtr told = Send(session, {.number = 1, .content = 1, .closes = true});
  store_.AnswerAll();
  Commit(told, 0, /*closes=*/true);
  EXPECT_FALSE(told->answered());
  store_.AnswerAll();
  EXPECT_TRUE(told->outcome().status.ok());
  // As long as a former owner may have an old copy.
  EXPECT_GT(store_.records.begin()->second.ttl, session->terms().idle_timeout);
  store_.answers_at_once = true;
  Switch();
  const absl::Status ended = Find(key).status();
  EXPECT_EQ(ReasonOf(ended), "SESSION_ENDED");
  EXPECT_EQ(EndCauseOf(ended), "closed");
}

TEST_F(SessionDurableTest, ANameIsOneSessionOnAllServers) {
  const absl::StatusOr<OpenedSession> made = Attach("n");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->is_new);
  Apply(made->session, 1);
  Switch();
  const absl::StatusOr<OpenedSession> attached = Attach("n");
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_FALSE(attached->is_new);
  EXPECT_EQ(attached->key, made->key);
  EXPECT_EQ(attached->owner_epoch, made->owner_epoch + 1);
  EXPECT_EQ(Applied(attached->session), 1u);
  Apply(attached->session, 2);
  // The first server has an old copy of it, and finds out.
  Switch();
  const absl::StatusOr<OpenedSession> back = Attach("n");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Applied(back->session), 2u);
  EXPECT_EQ(back->owner_epoch, attached->owner_epoch + 1);
}

TEST_F(SessionDurableTest, ANameIsFreeOnceItsSessionIsClosed) {
  const absl::StatusOr<OpenedSession> first = Attach("n");
  Commit(Send(first->session, {.number = 1, .closes = true}), 0, /*closes=*/true);
  for (int server = 0; server < 2; ++server) {
    const absl::StatusOr<OpenedSession> second = Attach("n");
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(second->is_new);
    EXPECT_NE(second->key, first->key);
    EXPECT_EQ(ReasonOf(Find(first->key).status()), "SESSION_ENDED");
    Commit(Send(second->session, {.number = 1, .closes = true}), 0, /*closes=*/true);
    Switch();
  }
}

// Fetched by its key, it comes to a server where a local session has the name.
TEST_F(SessionDurableTest, ANameGoesToTheDurableSessionOnceTheLocalOneHasEnded) {
  OpenSpec spec = Spec();
  spec.name = "n";
  const SessionPtr local = OpenWith(std::move(spec));
  Switch();
  const SessionPtr made = OpenDurable(Durability::kSync, "n");
  const std::string key = key_;
  Apply(made, 1);
  Switch();
  const absl::StatusOr<SessionPtr> fetched = Find(key);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(ReasonOf(OpenNamed("n", false).status()), "NAME_TAKEN");
  Commit(Send(local, {.number = 1, .closes = true}), 0, /*closes=*/true);
  EXPECT_EQ(ReasonOf(OpenNamed("n", false).status()), "NAME_TAKEN");
  const absl::StatusOr<OpenedSession> attached = Attach("n");
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_FALSE(attached->is_new);
  EXPECT_EQ(attached->session, *fetched);
  EXPECT_EQ(Applied(attached->session), 1u);
  EXPECT_EQ(sessions().live(), 1);
}

TEST_F(SessionDurableTest, AnOlderEpochIsFencedOnEachServer) {
  const absl::StatusOr<OpenedSession> made = Attach("n");
  Switch();
  const absl::StatusOr<OpenedSession> attached = Attach("n");
  EXPECT_EQ(Send(attached->session, {.number = 1, .owner_epoch = made->owner_epoch})->reason(), "FENCED");
  // The first server has not heard of the newer epoch, and asks.
  Switch();
  EXPECT_EQ(Send(made->session, {.number = 1, .owner_epoch = attached->owner_epoch})->reason(), "TAKEN_OVER");
  const SessionPtr again = *Find(made->key);
  const ToldPtr told = Send(again, {.number = 1, .owner_epoch = attached->owner_epoch});
  EXPECT_TRUE(told->lease.has_value());
}

TEST_F(SessionDurableTest, MadeUpAndForeignKeysReachNoStore) {
  OpenDurable(Durability::kSync);
  std::string made_up = key_;
  made_up[20] = made_up[20] == 'A' ? 'B' : 'A';
  Switch();
  store_.answers_at_once = false;
  EXPECT_EQ(ReasonOf(Find(made_up).status()), "SESSION_UNKNOWN");
  EXPECT_EQ(ReasonOf(Find(key_, "another").status()), "SESSION_UNKNOWN");
  EXPECT_TRUE(store_.requests.empty());
}

TEST_F(SessionDurableTest, TwoSecretsAreValidAtATime) {
  OpenDurable(Durability::kSync);
  Switch();
  sessions().SetSecrets({std::string(32, 'n'), std::string(32, 's')});
  EXPECT_TRUE(Find(key_).ok());
  Switch();
  sessions().SetSecrets({std::string(32, 'n')});
  OpenDurable(Durability::kSync);
  Switch();
  EXPECT_TRUE(Find(key_).ok());
}

TEST_F(SessionDurableTest, WithoutARecordASessionIsLost) {
  OpenDurable(Durability::kSync);
  store_.records.clear();
  Switch();
  EXPECT_EQ(ReasonOf(Find(key_).status()), "SESSION_LOST");
}

TEST_F(SessionDurableTest, ARecordThatTheStoreLostIsWrittenAnew) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  Apply(session, 1);
  store_.records.clear();
  EXPECT_TRUE(Apply(session, 2)->outcome().status.ok());
  EXPECT_EQ(store_.records.size(), 1u);
}

TEST_F(SessionDurableTest, ADamagedRecordIsLostAndSaysSo) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  Apply(session, 1);
  store_.records.begin()->second.record = "x";
  Switch();
  EXPECT_EQ(Find(key_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(sessions().live(), 0);
}

TEST_F(SessionDurableTest, WhoWaitsForATakeoverIsAnsweredInOrder) {
  Apply(OpenDurable(Durability::kSync), 1);
  Switch();
  store_.answers_at_once = false;
  std::vector<int> order;
  for (int k = 0; k < 3; ++k) {
    EXPECT_TRUE(IsElsewhere(sessions().Find(key_, "t").status()));
    sessions().Fetch(key_, "t", [&, k](const absl::StatusOr<SessionPtr>& session) {
      EXPECT_TRUE(session.ok());
      order.push_back(k);
      // One that comes meanwhile waits behind the others.
      if (k == 0) {
        EXPECT_TRUE(IsElsewhere(sessions().Find(key_, "t").status()));
        sessions().Fetch(key_, "t", [&](const absl::StatusOr<SessionPtr>&) { order.push_back(9); });
      }
    });
  }
  store_.AnswerAll();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 9}));
  EXPECT_TRUE(sessions().Find(key_, "t").ok());
}

TEST_F(SessionDurableTest, ADrainWritesAllAndLetsGo) {
  const SessionPtr session = OpenDurable(Durability::kInterval);
  Apply(session, 1);
  EXPECT_EQ(sessions().CountLeftBehind().durable, 1);
  sessions().StartDrain();
  EXPECT_TRUE(sessions().IsCarriedOver());
  EXPECT_EQ(Send(session, {.number = 2})->reason(), "DRAINING");
  Switch();
  EXPECT_EQ(Applied(*Find(key_)), 1u);
}

TEST_F(SessionDurableTest, ASessionThatIsOnlyReadKeepsItsRecord) {
  const SessionPtr session = OpenDurable(Durability::kSync);
  Apply(session, 1);
  const int before = store_.writes;
  const absl::Duration idle = session->terms().idle_timeout;
  for (int k = 0; k < 4; ++k) {
    for (absl::Duration passed; passed < idle / 2; passed += absl::Seconds(1)) {
      clock_.Move(absl::Seconds(1));
      sessions().Sweep();
    }
    Read(session);
  }
  EXPECT_TRUE(session->view().live);
  EXPECT_GT(store_.writes, before);
}

TEST_F(SessionDurableTest, LocalSessionsNeverNoticeTheStore) {
  store_.is_there = false;
  const SessionPtr session = Open();
  EXPECT_TRUE(Apply(session, 1)->outcome().status.ok());
  EXPECT_EQ(Send(session, {.number = 9})->reason(), "NUMBER_TOO_HIGH");
  EXPECT_EQ(store_.writes, 0);
}

}  // namespace
}  // namespace rnnserve
