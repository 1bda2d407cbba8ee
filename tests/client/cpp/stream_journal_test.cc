// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/stream_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/field_error.h"
#include "client/cpp/reply_room.h"
#include "tests/client/cpp/fake_session_server.h"

namespace rnnserve::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Log = std::vector<std::string>;

constexpr StreamJournal::Time kNow{};

v1::Operation CheckpointNamed(const std::string& name) {
  v1::Operation operation;
  operation.mutable_checkpoint()->set_name(name);
  return operation;
}
v1::Operation RewindTo(const std::string& name) {
  v1::Operation operation;
  operation.mutable_rewind()->set_checkpoint(name);
  return operation;
}
v1::Operation ResetAll() {
  v1::Operation operation;
  operation.mutable_reset();
  return operation;
}

// A journal beside its server, and what callers were told.
class Rig {
 public:
  explicit Rig(StreamJournal::Limits limits = {}, uint64_t write_every = 0) : journal(limits) {
    server.WriteEvery(write_every);
    journal.Begin(server.Open(nullptr), 0,
                  {.max_in_flight = static_cast<int32_t>(limits.max_in_flight) + 2, .is_durable = write_every > 0},
                  StreamJournal::Origin::kAsOpened, kNow);
  }

  StreamJournal::Ticket Feed(const std::string& what) { return journal.Add(Fed(what), kNow); }

  // Everything that can be sent is sent, and the replies come.
  void Exchange() {
    while (Step()) {
    }
  }
  bool Step() {
    std::vector<v1::Operation> operations = journal.Take(kNow);
    for (const v1::Operation& operation : operations) {
      Hear(server.Apply(operation));
      if (!last.lost.ok()) break;
    }
    return !operations.empty() && last.lost.ok() && last.over.ok();
  }
  void Hear(v1::OperationReply reply) {
    last = journal.Answer(std::move(reply));
    for (StreamJournal::FinishedOperation& operation : last.finished) {
      EXPECT_FALSE(told.contains(operation.ticket)) << "told twice";
      told.emplace(operation.ticket, std::move(operation));
    }
  }
  void OpenAgain() {
    ASSERT_TRUE(journal.CanReplay());
    const auto& tensors = journal.snapshot().tensors;
    const std::string key = server.Open(tensors ? &*tensors : nullptr);
    journal.BeginAgain(key, {.max_in_flight = 10, .is_durable = journal.IsDurable()});
  }
  Log LogAt(StreamJournal::Ticket ticket) const { return FakeSessionServer::LogOf(told.at(ticket).reply.outputs()); }

  FakeSessionServer server;
  StreamJournal journal;
  StreamJournal::Next last;
  std::map<StreamJournal::Ticket, StreamJournal::FinishedOperation> told;
};

TEST(StreamJournalTest, NumbersOperationsAndTellsTheirCallers) {
  Rig rig;
  const auto a = rig.Feed("a");
  const auto b = rig.Feed("b");
  rig.Exchange();
  EXPECT_THAT(rig.LogAt(a), ElementsAre("a"));
  EXPECT_THAT(rig.LogAt(b), ElementsAre("a", "b"));
  EXPECT_EQ(rig.told.at(b).reply.number(), 2);
  EXPECT_EQ(rig.journal.kept_bytes(), 0);
  EXPECT_FALSE(rig.journal.CanReplay()) << "without snapshots nothing is kept";
}

TEST(StreamJournalTest, WhatWasNotAnsweredIsSentAgainUnderItsNumber) {
  Rig rig;
  rig.Feed("a");
  rig.Feed("b");
  for (const v1::Operation& operation : rig.journal.Take(kNow)) rig.server.Apply(operation);  // the replies are lost
  rig.journal.Detach();
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a", "b"));
  EXPECT_EQ(rig.server.steps_run(), 2);
  EXPECT_THAT(rig.told, SizeIs(2));
}

// --- Durable sessions.

Log Numbers(int from, int to) {
  Log log;
  for (int k = from; k < to; ++k) log.push_back(std::to_string(k));
  return log;
}

TEST(StreamJournalTest, WhatTheStoreLacksIsSentAgainUnchangedUnderTheSameKey) {
  Rig rig({}, /*write_every=*/4);
  for (const std::string& name : Numbers(0, 6)) rig.Feed(name);
  rig.Exchange();
  EXPECT_GT(rig.journal.kept_bytes(), 0) << "5 and 6 are only on the server";
  EXPECT_FALSE(rig.journal.CanReplay());
  const std::string key = rig.server.key();
  rig.server.TakeOver();
  rig.journal.Detach();
  EXPECT_THAT(rig.server.log(), SizeIs(4));
  const auto next = rig.Feed("6");
  rig.Exchange();
  EXPECT_EQ(rig.server.log(), Numbers(0, 7));
  EXPECT_EQ(rig.LogAt(next), Numbers(0, 7));
  EXPECT_EQ(rig.told.at(next).reply.position(), 7);
  EXPECT_EQ(rig.journal.session(), key);
  EXPECT_EQ(rig.server.steps_run(), 9) << "4 and 5 twice";
  EXPECT_THAT(rig.told, SizeIs(7));
}

TEST(StreamJournalTest, WhatTheStoreHasIsNotKept) {
  Rig rig({}, /*write_every=*/1);
  for (const std::string& name : Numbers(0, 6)) rig.Feed(name);
  rig.Exchange();
  EXPECT_EQ(rig.journal.kept_bytes(), 0);
  rig.server.TakeOver();
  rig.journal.Detach();
  rig.Feed("6");
  rig.Exchange();
  EXPECT_EQ(rig.server.steps_run(), 7) << "nothing was needed again";
}

TEST(StreamJournalTest, WhereTheStoreKeepsOneReplyOneChangeIsUnderWay) {
  Rig durable({}, /*write_every=*/1), with_snapshots({.checkpoint_every = 4}, /*write_every=*/1);
  for (Rig* rig : {&durable, &with_snapshots}) {
    for (const std::string& name : Numbers(0, 3)) rig->Feed(name);
  }
  EXPECT_THAT(durable.journal.Take(kNow), SizeIs(1));
  EXPECT_THAT(with_snapshots.journal.Take(kNow), SizeIs(3));
}

TEST(StreamJournalTest, AServerThatCannotGoOnIsLeft) {
  for (const auto& [code, reason, leaves] :
       {std::tuple{9, "MODEL_MISSING", true}, {9, "RECORD_TOO_NEW", true}, {10, "TAKEN_OVER", false}}) {
    Rig rig({}, /*write_every=*/1);
    rig.Feed("0");
    v1::OperationReply reply;
    reply.set_request_id(rig.journal.Take(kNow)[0].request_id());
    reply.mutable_status()->set_code(code);
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    reply.mutable_status()->add_details()->PackFrom(info);
    rig.Hear(reply);
    EXPECT_EQ(rig.journal.IsCarriedOver(), leaves) << reason;
    EXPECT_EQ(rig.last.pause.has_value(), !leaves) << reason;
    rig.journal.Detach();
    rig.Exchange();
    EXPECT_EQ(rig.server.log(), Numbers(0, 1)) << "sent again, unchanged";
  }
}

TEST(StreamJournalTest, AQuestionFindsOutWhatTheServerLacks) {
  Rig rig({}, /*write_every=*/4);
  for (const std::string& name : Numbers(0, 6)) rig.Feed(name);
  rig.Exchange();
  rig.server.TakeOver();
  rig.journal.Detach();
  v1::Operation question;
  question.mutable_get_state();
  const auto asked = rig.journal.Add(std::move(question), kNow);
  rig.Exchange();
  EXPECT_EQ(FakeSessionServer::LogOf(rig.told.at(asked).reply.get_state().state().tensors()), Numbers(0, 6));
}

TEST(StreamJournalTest, ADrainingServerOfADurableSessionIsLeftAtOnce) {
  Rig rig({}, /*write_every=*/1);
  rig.Feed("0");
  rig.Exchange();
  rig.server.Drain();
  rig.Feed("1");
  rig.Exchange();
  EXPECT_TRUE(rig.journal.IsCarriedOver()) << "the state need not be fetched";
  EXPECT_FALSE(rig.journal.CanReplay());
  rig.server.TakeOver();
  rig.journal.Detach();
  rig.Exchange();
  EXPECT_EQ(rig.server.log(), Numbers(0, 2));
}

TEST(StreamJournalTest, AStoreThatKnowsLessThanItSaidIsALoss) {
  for (const bool has_snapshots : {false, true}) {
    Rig rig({.checkpoint_every = has_snapshots ? 3u : 0u}, /*write_every=*/2);
    for (const std::string& name : Numbers(0, 7)) rig.Feed(name);
    rig.Exchange();
    rig.server.LoseNewestRecord();
    rig.server.TakeOver();
    rig.journal.Detach();
    rig.Feed("7");
    rig.Exchange();
    EXPECT_EQ(rig.last.lost.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(rig.journal.CanReplay(), has_snapshots);
    if (!has_snapshots) continue;
    rig.last = {};
    rig.OpenAgain();
    rig.Exchange();
    EXPECT_EQ(rig.server.log(), Numbers(0, 8)) << "from the client's own snapshot";
  }
}

// Whatever is written, lost on the way or taken over: each change counts once, and each caller sees the log up to its.
TEST(StreamJournalTest, TakeoversAtAnyMoment) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand random(seed);
    const auto one_in = [&](int n) { return std::uniform_int_distribution<int>(1, n)(random) == 1; };
    Rig rig({.max_in_flight = 8, .checkpoint_every = seed % 3 == 0 ? 5u : 0u}, /*write_every=*/1 + seed % 7);
    std::vector<StreamJournal::Ticket> tickets;
    while (tickets.size() < 60) {
      if (rig.journal.HasRoom(1)) tickets.push_back(rig.Feed(std::to_string(tickets.size())));
      if (one_in(3)) continue;
      for (const v1::Operation& operation : rig.journal.Take(kNow)) {
        const v1::OperationReply reply = rig.server.Apply(operation);
        if (one_in(9)) {
          if (one_in(2)) rig.server.TakeOver();
          rig.journal.Detach();
          break;
        }
        rig.Hear(reply);
        if (rig.last.lost.ok()) continue;
        ASSERT_EQ(seed % 3, 0) << "with snapshots several are under way, and replies may be lost: " << rig.last.lost;
        rig.OpenAgain();
        break;
      }
    }
    rig.last = {};
    rig.Exchange();
    while (!rig.last.lost.ok()) {
      rig.OpenAgain();
      rig.last = {};
      rig.Exchange();
    }
    ASSERT_EQ(rig.server.log(), Numbers(0, 60));
    for (int k = 0; k < 60; ++k) ASSERT_EQ(rig.LogAt(tickets[static_cast<size_t>(k)]), Numbers(0, k + 1));
  }
}

TEST(StreamJournalTest, RepliesToAnEarlierSendingCountNoMore) {
  Rig rig;
  rig.Feed("a");
  const v1::OperationReply late = rig.server.Apply(rig.journal.Take(kNow)[0]);
  rig.journal.Detach();
  rig.Hear(late);
  EXPECT_THAT(rig.told, IsEmpty());
  rig.Exchange();
  EXPECT_THAT(rig.told, SizeIs(1));
}

TEST(StreamJournalTest, AServerThatIsShortOfSomethingIsAskedAgain) {
  Rig rig;
  rig.Feed("a");
  rig.Feed("b");
  rig.server.RefuseNext();
  const auto operations = rig.journal.Take(kNow);
  rig.Hear(rig.server.Apply(operations[0]));
  EXPECT_TRUE(rig.last.pause.has_value());
  rig.Hear(rig.server.Apply(operations[1]));  // NUMBER_TOO_HIGH, which says nothing new
  EXPECT_TRUE(rig.last.lost.ok());
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a", "b"));
}

TEST(StreamJournalTest, ARefusedOperationFailsThoseBehindItAndLeavesItsNumber) {
  Rig rig;
  rig.Feed("a");
  const auto bad = rig.Feed("bad");
  const auto behind = rig.Feed("b");
  rig.Exchange();
  EXPECT_EQ(rig.told.at(bad).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.told.at(behind).status.code(), absl::StatusCode::kAborted);
  rig.Feed("c");
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a", "c"));
}

TEST(StreamJournalTest, DrainCarriesTheStateOver) {
  Rig rig;
  rig.Feed("a");
  rig.Exchange();
  rig.server.Drain();
  rig.journal.Drain();
  rig.Feed("b");
  EXPECT_FALSE(rig.journal.IsCarriedOver());
  rig.Exchange();
  ASSERT_TRUE(rig.journal.IsCarriedOver());
  rig.server.Kill();
  rig.OpenAgain();
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a", "b"));
  EXPECT_EQ(rig.told.rbegin()->second.reply.number(), 2) << "callers see no new numbers";
  EXPECT_FALSE(rig.journal.CanReplay()) << "the state that was carried over is old now";
}

TEST(StreamJournalTest, OperationsOnTheirWayWhenTheServerDrainsGoToTheNext) {
  Rig rig;
  rig.Feed("a");
  rig.Feed("b");
  const auto operations = rig.journal.Take(kNow);
  rig.Hear(rig.server.Apply(operations[0]));
  rig.server.Drain();
  rig.Hear(rig.server.Apply(operations[1]));  // DRAINING
  EXPECT_TRUE(rig.journal.IsDraining());
  rig.Exchange();
  ASSERT_TRUE(rig.journal.IsCarriedOver());
  rig.OpenAgain();
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a", "b"));
  EXPECT_EQ(rig.told.size(), 2);
}

TEST(StreamJournalTest, AServerThatDrainsStillAnswersWhatWasAppliedBeforeACut) {
  Rig rig;
  rig.Feed("a");
  rig.Feed("b");
  for (const v1::Operation& operation : rig.journal.Take(kNow)) rig.server.Apply(operation);  // the replies are lost
  rig.server.Drain();
  rig.journal.Detach();
  rig.journal.Drain();
  for (int steps = 0; steps < 10 && rig.Step(); ++steps) {
  }
  EXPECT_THAT(rig.told, SizeIs(2));
  EXPECT_EQ(rig.server.steps_run(), 2);
  EXPECT_TRUE(rig.journal.IsCarriedOver());
}

TEST(StreamJournalTest, AKilledServerIsLostWithoutSnapshots) {
  Rig rig;
  rig.Feed("a");
  rig.Exchange();
  rig.server.Kill();
  rig.Feed("b");
  rig.Exchange();
  EXPECT_EQ(rig.last.lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(rig.journal.CanReplay());
}

TEST(StreamJournalTest, AKilledServerBeforeTheFirstAnswerCostsNothing) {
  Rig rig;
  rig.Feed("a");
  rig.server.Kill();
  rig.Exchange();
  EXPECT_FALSE(rig.last.lost.ok());
  rig.OpenAgain();
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a"));
}

TEST(StreamJournalTest, SnapshotsBoundWhatIsKeptAndReplayed) {
  Rig rig({.checkpoint_every = 3});
  for (const char* what : {"a", "b", "c", "d", "e", "f", "g"}) {
    rig.Feed(what);
    rig.Exchange();
  }
  EXPECT_EQ(rig.journal.snapshot().index, 6);
  rig.server.Kill();
  const auto h = rig.Feed("h");
  rig.Exchange();
  ASSERT_FALSE(rig.last.lost.ok());
  rig.OpenAgain();
  const int before = rig.server.steps_run();
  rig.Exchange();
  EXPECT_THAT(rig.LogAt(h), ElementsAre("a", "b", "c", "d", "e", "f", "g", "h"));
  EXPECT_EQ(rig.server.steps_run() - before, 2) << "g and h";
  EXPECT_EQ(rig.told.at(h).reply.position(), 8);
}

TEST(StreamJournalTest, AReplyThatLeftTheWindowIsMadeAgainFromTheSnapshot) {
  Rig rig({.checkpoint_every = 100});
  rig.server.window_ = 1;
  rig.Feed("a");
  rig.Feed("b");
  for (const v1::Operation& operation : rig.journal.Take(kNow)) rig.server.Apply(operation);
  rig.journal.Detach();
  rig.Step();
  EXPECT_EQ(rig.last.lost.code(), absl::StatusCode::kAlreadyExists);
  rig.OpenAgain();
  rig.Exchange();
  EXPECT_THAT(rig.server.log(), ElementsAre("a", "b"));
}

TEST(StreamJournalTest, RoomIsBoundedByOperationsAndByBytes) {
  Rig rig({.max_in_flight = 2, .max_kept_bytes = 100, .checkpoint_every = 1000});
  EXPECT_TRUE(rig.journal.HasRoom(1 << 20)) << "a lone operation may be larger";
  rig.Feed(std::string(60, 'a'));
  EXPECT_FALSE(rig.journal.HasRoom(60));
  EXPECT_TRUE(rig.journal.HasRoom(10));
  rig.Feed("b");
  EXPECT_FALSE(rig.journal.HasRoom(0));
  rig.Exchange();
  EXPECT_TRUE(rig.journal.HasRoom(0));
  EXPECT_TRUE(rig.journal.HasRoom(200)) << "a snapshot covers them";
}

// A whole model's names tell nothing of which outputs grow: a longer chunk is held back if its reply would not fit.
TEST(ReplyRoomTest, OutputsOfAWholeModelAreExpectedToGrowWithTheSteps) {
  const auto chunk = [](int64_t steps) {
    v1::Operation operation;
    v1::Tensor& tokens = *operation.mutable_chunk()->add_inputs();
    tokens.set_name("tokens");
    for (const int64_t axis : {int64_t{1}, steps}) tokens.add_shape(axis);
    return operation;
  };
  ReplyRoom room;
  room.SetWindow(6000);
  EXPECT_EQ(room.Expect(chunk(16)), std::nullopt);
  v1::OperationReply reply;
  v1::Tensor& p = *reply.add_outputs();
  p.set_name("p");
  p.set_raw(std::string(1024, 'p'));
  room.Learn(chunk(16), reply);
  const std::optional<int64_t> same = room.Expect(chunk(16)), longer = room.Expect(chunk(64));
  ASSERT_TRUE(same && longer);
  EXPECT_GE(*same, 1024 + 256);
  EXPECT_GE(*longer, 4 * 1024 + 256);
  EXPECT_EQ(room.Expect(chunk(1)), same) << "it may be a final state";
  EXPECT_TRUE(room.Fits(same, 2 * *same, true));
  EXPECT_FALSE(room.Fits(longer, *same, true));
}

// What is in flight when the connection breaks must be found in the window by its repetition.
TEST(StreamJournalTest, NoMoreIsSentThanHasItsRepliesInTheWindow) {
  StreamJournal journal({.max_in_flight = 8});
  journal.Begin("key", 0, {8, 4000}, StreamJournal::Origin::kAsOpened, kNow);
  const auto feed = [&](int64_t steps) {
    v1::Operation operation;
    v1::Tensor& x = *operation.mutable_chunk()->add_inputs();
    x.set_name("X");
    for (const int64_t axis : {steps, int64_t{1}, int64_t{3}}) x.add_shape(axis);
    journal.Add(std::move(operation), kNow);
  };
  const auto answer = [&](const v1::Operation& operation) {
    v1::OperationReply reply;
    reply.set_request_id(operation.request_id());
    reply.set_number(operation.number());
    v1::Tensor& y = *reply.add_outputs();
    y.set_name("Y");
    y.set_raw(std::string(static_cast<size_t>(operation.chunk().inputs(0).shape(0)) * 64, 'y'));
    return journal.Answer(std::move(reply));
  };
  for (int k = 0; k < 4; ++k) feed(16);  // 1,024 bytes each: 1,552 of the window at most
  std::vector<v1::Operation> sent = journal.Take(kNow);
  ASSERT_EQ(sent.size(), 1u) << "how large its reply is, nobody knows yet";
  EXPECT_EQ(answer(sent[0]).finished.size(), 1u);
  EXPECT_EQ(journal.Take(kNow).size(), 2u);
  EXPECT_TRUE(journal.Take(kNow).empty());
  journal.Detach();
  sent = journal.Take(kNow);
  ASSERT_EQ(sent.size(), 2u) << "again, and the third still waits";
  answer(sent[0]);
  EXPECT_EQ(journal.Take(kNow).size(), 1u);
  feed(1000);  // more than the window: the server says so, once it is alone
  EXPECT_TRUE(journal.Take(kNow).empty());
}

TEST(StreamJournalTest, RoomIsMadeByASnapshot) {
  Rig rig({.max_kept_bytes = 1000, .checkpoint_every = 1000});
  rig.Feed(std::string(300, 'a'));
  rig.Exchange();
  EXPECT_FALSE(rig.journal.HasRoom(800));
  rig.journal.MakeRoom(kNow);
  rig.Exchange();
  EXPECT_TRUE(rig.journal.HasRoom(800));
}

TEST(StreamJournalTest, RewindsSurviveTheServerThatHadTheCheckpoint) {
  Rig rig({.checkpoint_every = 2});
  rig.Feed("a");
  rig.journal.Add(CheckpointNamed("here"), kNow);
  rig.Feed("b");
  rig.Feed("c");
  rig.Exchange();
  rig.server.Kill();
  const auto rewound = rig.journal.Add(RewindTo("here"), kNow);
  const auto d = rig.Feed("d");
  rig.Exchange();
  rig.OpenAgain();
  rig.Exchange();
  EXPECT_TRUE(rig.told.at(rewound).status.ok());
  EXPECT_THAT(rig.LogAt(d), ElementsAre("a", "d"));
}

TEST(StreamJournalTest, AReplayedRewindGoesToTheCheckpointOfItsTime) {
  Rig rig({.checkpoint_every = 100});
  rig.Feed("a");
  rig.journal.Add(CheckpointNamed("here"), kNow);
  rig.Exchange();
  rig.Feed("b");
  rig.journal.Add(RewindTo("here"), kNow);
  rig.Feed("c");
  rig.journal.Add(CheckpointNamed("here"), kNow);  // another one of this name
  rig.Exchange();
  rig.server.Kill();
  const auto d = rig.Feed("d");
  rig.Exchange();
  rig.OpenAgain();
  rig.Exchange();
  EXPECT_THAT(rig.LogAt(d), ElementsAre("a", "c", "d"));
}

TEST(StreamJournalTest, ARewindBringsTheRowsOfItsCheckpoint) {
  Rig rig;
  rig.Feed("a");
  rig.journal.Add(CheckpointNamed("here"), kNow);
  rig.Exchange();
  v1::Operation select;
  select.mutable_select_rows()->add_rows(0);
  select.mutable_select_rows()->add_rows(0);
  rig.journal.Add(select, kNow);
  rig.Exchange();
  const auto rewound = rig.journal.Add(RewindTo("here"), kNow);
  const std::vector<v1::Operation> operations = rig.journal.Take(kNow);
  ASSERT_THAT(operations, SizeIs(2));
  EXPECT_THAT(operations[0].select_rows().rows(), ElementsAre(0));
  EXPECT_TRUE(operations[1].has_set_state());
  for (const v1::Operation& operation : operations) rig.Hear(rig.server.Apply(operation));
  EXPECT_THAT(rig.LogAt(rewound), ElementsAre("a"));
}

TEST(StreamJournalTest, ACheckpointsRowsAreThoseThatTheServerTells) {
  // [3, 2, 1] is of three layers by its file's name, as of three rows by an operator's: the shape does not tell.
  for (const int64_t told : {2, 0}) {
    Rig rig;
    rig.Feed("a");
    rig.Exchange();
    rig.journal.Add(CheckpointNamed("here"), kNow);
    for (const v1::Operation& operation : rig.journal.Take(kNow)) {
      v1::OperationReply reply = rig.server.Apply(operation);
      ASSERT_TRUE(reply.has_get_state());
      v1::Tensor& state = *reply.mutable_get_state()->mutable_state()->mutable_tensors(0);
      state.clear_shape();
      for (const int64_t axis : {3, 2, 1}) state.add_shape(axis);
      state.set_raw(std::string(24, 'x'));
      reply.mutable_get_state()->set_rows(told);
      rig.Hear(reply);
    }
    v1::Operation select;
    select.mutable_select_rows()->add_rows(0);
    rig.journal.Add(select, kNow);
    rig.Exchange();
    rig.journal.Add(RewindTo("here"), kNow);
    const std::vector<v1::Operation> operations = rig.journal.Take(kNow);
    ASSERT_THAT(operations, SizeIs(2));
    EXPECT_THAT(operations[0].select_rows().rows(), SizeIs(told == 0 ? 6 : 2));
  }
}

TEST(StreamJournalTest, SomebodyElsesChangesAreNoticed) {
  Rig rig({.checkpoint_every = 1});
  rig.Feed("a");
  auto operations = rig.journal.Take(kNow);
  ASSERT_THAT(operations, SizeIs(2));
  rig.Hear(rig.server.Apply(operations[0]));
  v1::Operation foreign = Fed("x");
  foreign.set_session(rig.journal.session());
  foreign.set_number(2);
  rig.server.Apply(foreign);
  rig.Hear(rig.server.Apply(operations[1]));
  EXPECT_EQ(rig.last.over.code(), absl::StatusCode::kAborted);
}

// Whatever happens to connections and servers, the state is what was asked for, once, in order, and every caller sees
// the state as of its own operation.
TEST(StreamJournalTest, RandomMishaps) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto dice = [&](uint32_t sides) { return random() % sides == 0; };
    Rig rig({.max_in_flight = 1 + random() % 6, .checkpoint_every = 1 + random() % 7});
    std::map<StreamJournal::Ticket, Log> expected;
    std::map<std::string, Log> checkpoints;
    Log log;
    int fed = 0;
    StreamJournal::Ticket checkpoint = 0;
    while (fed < 40 || expected.size() > rig.told.size()) {
      const bool waits = checkpoint != 0 && !rig.told.contains(checkpoint);  // as Checkpoint does
      if (fed < 40 && !waits && rig.journal.HasRoom(100)) {
        ++fed;
        v1::Operation operation = Fed(std::to_string(fed));
        if (dice(12)) {
          operation = ResetAll();
          log.clear();
        } else if (dice(8)) {
          operation = CheckpointNamed(dice(2) ? "p" : "q");
          checkpoints[operation.checkpoint().name()] = log;
        } else if (!checkpoints.empty() && dice(6)) {
          operation = RewindTo(checkpoints.begin()->first);
          log = checkpoints.begin()->second;
        } else {
          log.push_back(std::to_string(fed));
        }
        if (operation.has_chunk() && dice(20)) {
          operation.mutable_select_rows()->add_rows(0);
          log.pop_back();
        }
        const bool shows = !operation.has_checkpoint();
        const auto ticket = rig.journal.Add(std::move(operation), kNow);
        if (!shows) checkpoint = ticket;
        expected[ticket] = shows ? log : Log{"-"};
      } else if (fed < 40) {
        rig.journal.MakeRoom(kNow);
      }
      if (dice(10)) rig.server.RefuseNext();
      if (dice(25)) rig.server.Drain();
      if (dice(30)) rig.server.Kill();
      bool is_cut = false;
      for (const v1::Operation& operation : rig.journal.Take(kNow)) {
        is_cut = is_cut || dice(15);
        if (is_cut && dice(2)) break;  // it did not arrive
        v1::OperationReply reply = rig.server.Apply(operation);
        if (!is_cut) rig.Hear(std::move(reply));
        ASSERT_TRUE(rig.last.over.ok()) << rig.last.over;
        if (!rig.last.lost.ok()) break;
      }
      if (is_cut) {
        rig.journal.Detach();
        if (rig.server.is_draining()) rig.journal.Drain();  // newcomers are told at once
      }
      if (!rig.last.lost.ok() || rig.journal.IsCarriedOver()) rig.OpenAgain();
      rig.last = {};
    }
    for (const auto& [ticket, seen] : expected) {
      ASSERT_TRUE(rig.told.at(ticket).status.ok()) << rig.told.at(ticket).status;
      if (seen != Log{"-"}) {
        ASSERT_EQ(rig.LogAt(ticket), seen);
        ASSERT_EQ(rig.told.at(ticket).reply.position(), seen.size());
      }
    }
  }
}

}  // namespace
}  // namespace rnnserve::client
