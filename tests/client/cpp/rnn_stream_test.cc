// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/rnn_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <thread>

#include "base/field_error.h"
#include "client/cpp/client.h"
#include "tests/client/cpp/fake_stream_server.h"

namespace rnnserve::client {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::Ne;
using testing::SizeIs;
using Log = std::vector<std::string>;

constexpr LoadBalancing kFirst = LoadBalancing::kPickFirst;

const SessionSpec kSpec{.target = ModelRef{"m"}};

// To this server, a chunk is its name.
std::vector<Tensor> Named(const std::string& name) { return {Tensor{name, DataType::kFloat, {0}, ""}}; }

Log Names(const std::vector<Tensor>& tensors) {
  Log names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

// At the first of them.
std::unique_ptr<RnnStream> OpenTo(std::vector<std::string> servers, StreamOptions options = {}) {
  options.load_balancing = kFirst;
  absl::StatusOr<std::unique_ptr<RnnStream>> stream = RnnStream::Open(std::move(servers), kSpec, options);
  EXPECT_TRUE(stream.ok()) << stream.status();
  return *std::move(stream);
}

// Feeds from ... to - 1; each answer has all that was fed before.
void FeedAndCheck(RnnStream& stream, int from, int to) {
  std::vector<std::future<absl::StatusOr<ChunkResult>>> results;
  for (int k = from; k < to; ++k) results.push_back(stream.FeedAsync(Named(std::to_string(k))));
  Log expected;
  for (int k = 0; k < from; ++k) expected.push_back(std::to_string(k));
  for (int k = from; k < to; ++k) {
    expected.push_back(std::to_string(k));
    const absl::StatusOr<ChunkResult> result = results[static_cast<size_t>(k - from)].get();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(Names(result->outputs), expected);
    ASSERT_EQ(result->number, expected.size());
    ASSERT_EQ(result->position, expected.size());
  }
}

TEST(RnnStreamTest, FeedsAndCloses) {
  FakeStreamServer server;
  const auto stream = OpenTo({server.address()});
  FeedAndCheck(*stream, 0, 50);
  EXPECT_EQ(stream->fingerprint(), "f");
  EXPECT_EQ(stream->server(), server.address());
  const absl::StatusOr<SessionState> state = stream->State();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->tensors, SizeIs(50));
  EXPECT_EQ(state->number, 50);
  EXPECT_TRUE(stream->Close().ok());
  EXPECT_EQ(stream->Feed(Named("late")).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RnnStreamTest, GoesOnAfterLostConnections) {
  for (const int every : {2, 3, 7}) {
    FakeStreamServer server;
    server.CutEvery(every);
    const auto stream = OpenTo({server.address()}, {.max_in_flight = every - 1});
    FeedAndCheck(*stream, 0, 20);
    EXPECT_GT(stream->repairs().reconnects, 0);
    EXPECT_THAT(server.log(), SizeIs(20));
  }
}

TEST(RnnStreamTest, BalancersAreToldWhatBelongsTogether) {
  FakeStreamServer server;
  server.CutEvery(3);
  const auto stream = OpenTo({server.address()}, {.max_in_flight = 2});
  FeedAndCheck(*stream, 0, 10);
  const auto fork = stream->Fork();
  ASSERT_TRUE(fork.ok());
  const std::vector<std::string> routes = server.routes();
  ASSERT_GT(routes.size(), 2u);
  EXPECT_THAT(routes, Each(routes.front())) << "from Open on, whatever breaks";
  EXPECT_THAT(routes.front(), SizeIs(32));
  const auto another = OpenTo({server.address()}, {});
  EXPECT_THAT(server.routes(), Contains(Ne(routes.front())));  // not the last: the others may connect again meanwhile
}

TEST(RnnStreamTest, CallersFromManyThreads) {
  FakeStreamServer server;
  server.CutEvery(50);
  const auto stream = OpenTo({server.address()}, {.checkpoint_every = 4});
  std::mutex mutex;
  std::set<uint64_t> numbers;
  std::vector<std::thread> callers;
  for (int k = 0; k < 4; ++k) {
    callers.emplace_back([&] {
      for (int n = 0; n < 25; ++n) {
        const absl::StatusOr<ChunkResult> result = stream->Feed(Named("x"));
        ASSERT_TRUE(result.ok()) << result.status();
        std::lock_guard lock(mutex);
        numbers.insert(result->number);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(numbers, SizeIs(100));
  EXPECT_EQ(*numbers.rbegin(), 100);
}

TEST(RnnStreamTest, CarriesTheStateOverWhenTheServerLeaves) {
  FakeStreamServer first, second;
  const auto stream = OpenTo({first.address(), second.address()});
  FeedAndCheck(*stream, 0, 5);
  first.Drain();
  FeedAndCheck(*stream, 5, 30);
  EXPECT_EQ(stream->repairs().hand_overs, 1);
  EXPECT_EQ(stream->server(), second.address());
}

TEST(RnnStreamTest, SurvivesAKilledServerWithCheckpoints) {
  FakeStreamServer server;
  const auto stream = OpenTo({server.address()}, {.checkpoint_every = 4});
  for (int k = 0; k < 60; k += 10) {
    FeedAndCheck(*stream, k, k + 10);
    server.Kill();
  }
  EXPECT_EQ(stream->repairs().replays, 5);
}

TEST(RnnStreamTest, AKilledServerWithoutCheckpointsIsDataLoss) {
  FakeStreamServer server;
  const auto stream = OpenTo({server.address()});
  FeedAndCheck(*stream, 0, 3);
  server.Kill();
  EXPECT_EQ(stream->Feed(Named("x")).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(stream->State().status().code(), absl::StatusCode::kDataLoss) << "and so is everything after it";
}

// It may have been applied: sent again, under whatever number and to whatever server, it might count twice.
TEST(RnnStreamTest, WhatIsAbortedForAnotherOwnerIsNeverSentAgain) {
  for (const std::string reason : {"OLDER_OWNER", "NUMBER_REUSED", "FENCED", "SOME_OTHER"}) {
    FakeStreamServer server, other;
    const auto stream = OpenTo({server.address(), other.address()}, {.checkpoint_every = 1});
    FeedAndCheck(*stream, 0, 1);
    server.AbortNext(reason);
    for (int k = 0; k < 2; ++k) {
      const absl::Status status = stream->Feed(Named("x")).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
      EXPECT_EQ(ReasonOf(status), reason);
    }
    EXPECT_THAT(server.log(), ElementsAre("0", "x"));
    EXPECT_THAT(other.log(), SizeIs(0));
  }
}

TEST(RnnStreamTest, ASessionThatAnotherHasAttachedToIsNotTakenBack) {
  FakeStreamServer server;
  const auto stream = OpenTo({server.address()}, {.checkpoint_every = 1});
  FeedAndCheck(*stream, 0, 2);
  const auto fork = stream->Fork();
  ASSERT_TRUE(fork.ok());
  server.AttachAnother();
  EXPECT_EQ(ReasonOf(stream->Feed(Named("x")).status()), "FENCED");
  EXPECT_THAT(server.log(), ElementsAre("0", "1"));
  EXPECT_TRUE((*fork)->Feed(Named("y")).ok()) << "a fork has an epoch of its own";
}

TEST(RnnStreamTest, NeverGoesOnWithAnotherOperator) {
  FakeStreamServer first, second;
  second.SetFingerprint("g");
  const auto stream = OpenTo({first.address(), second.address()});
  FeedAndCheck(*stream, 0, 1);
  first.Drain();
  const absl::Status status = stream->Feed(Named("x")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another operator"));
}

TEST(RnnStreamTest, CheckpointsAndForksOutliveTheServer) {
  FakeStreamServer first, second;
  const auto stream = OpenTo({first.address(), second.address()}, {.checkpoint_every = 3});
  FeedAndCheck(*stream, 0, 4);
  ASSERT_TRUE(stream->Checkpoint("four").ok());
  FeedAndCheck(*stream, 4, 6);
  const absl::StatusOr<std::unique_ptr<RnnStream>> fork = stream->Fork();
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_THAT(Names((*fork)->Feed(Named("f"))->outputs), ElementsAre("0", "1", "2", "3", "4", "5", "f"));
  first.Drain();
  first.Kill();
  ASSERT_TRUE(stream->Rewind("four").ok());
  const absl::StatusOr<ChunkResult> result = stream->Feed(Named("x"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Names(result->outputs), ElementsAre("0", "1", "2", "3", "x"));
  EXPECT_EQ(result->position, 5);
  EXPECT_EQ(stream->Rewind("five").code(), absl::StatusCode::kNotFound);
}

TEST(RnnStreamTest, ASilentServerIsGivenUpInTheEnd) {
  FakeStreamServer server;
  server.FallSilent();
  const auto stream = OpenTo({server.address()}, {.max_wait = std::chrono::milliseconds(1000)});
  const absl::StatusCode code = stream->Feed(Named("x")).status().code();
  EXPECT_TRUE(code == absl::StatusCode::kDeadlineExceeded || code == absl::StatusCode::kDataLoss) << code;
}

TEST(RnnStreamTest, WhatIsInFlightWhenTheStreamIsLetGoIsCancelled) {
  FakeStreamServer server;
  server.FallSilent();
  std::future<absl::StatusOr<ChunkResult>> result = OpenTo({server.address()})->FeedAsync(Named("x"));
  EXPECT_EQ(result.get().status().code(), absl::StatusCode::kCancelled);
}

TEST(RnnStreamTest, AnOpenThatALeavingServerRefusesIsSentOnAnotherRoute) {
  FakeStreamServer server;
  server.RefuseOpens(3, /*leaving=*/true);
  FeedAndCheck(*OpenTo({server.address()}), 0, 2);
  const std::vector<std::string> routes = server.routes();  // of four Opens and the stream
  ASSERT_THAT(routes, SizeIs(5));
  EXPECT_EQ(std::set<std::string>(routes.begin(), routes.end()).size(), 4u);
  EXPECT_EQ(routes[4], routes[3]);
  EXPECT_THAT(server.request_ids(), SizeIs(1));
}

TEST(RnnStreamTest, AnOpenWhoseReplyWasLostMeetsItself) {
  FakeStreamServer server;
  server.RefuseOpens(3, /*leaving=*/false);  // as a proxy says it
  FeedAndCheck(*OpenTo({server.address()}), 0, 2);
  const std::vector<std::string> routes = server.routes();
  ASSERT_THAT(routes, SizeIs(5));
  EXPECT_EQ(std::set<std::string>(routes.begin(), routes.end()).size(), 1u);
  EXPECT_THAT(server.request_ids(), SizeIs(1));
}

TEST(RnnStreamTest, AnEngineOutOfServiceIsAskedForElsewhereOnly) {
  FakeStreamServer first, second, third;
  first.LoseEngine();
  second.RefuseOpens(2, /*leaving=*/false);
  EXPECT_EQ(OpenTo({first.address(), second.address()})->server(), second.address());
  EXPECT_THAT(first.routes(), SizeIs(1));
  const absl::Status status = RnnStream::Open({first.address()}, kSpec).status();
  EXPECT_EQ(ReasonOf(status), "ENGINE_OUT_OF_SERVICE");
  EXPECT_THAT(first.routes(), SizeIs(2));

  const auto stream = OpenTo({third.address(), first.address(), second.address()});
  FeedAndCheck(*stream, 0, 2);
  third.Drain();
  FeedAndCheck(*stream, 2, 5);
  EXPECT_EQ(stream->server(), second.address());
  second.LoseEngine();
  third.LoseEngine();
  second.Drain();
  const absl::Status over = stream->Feed(Named("x")).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(over.message()), HasSubstr("the device is lost"));
  EXPECT_THAT(first.routes(), SizeIs(4)) << "once by each";
}

TEST(RnnStreamTest, WhoIsAskedMeanwhileDoesNotChangeTheWayHome) {
  FakeStreamServer home, other;
  other.RefuseOpens(1 << 30, /*leaving=*/true);
  const auto stream = OpenTo({home.address(), other.address()}, {.checkpoint_every = 4});
  home.CutEvery(1);
  auto result = stream->FeedAsync(Named("x"));
  while (other.routes().size() < 2 && result.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
  }
  home.CutEvery(0);
  EXPECT_TRUE(result.get().ok());
  const std::vector<std::string> routes = home.routes();
  EXPECT_THAT(routes, Each(routes.front()));
  EXPECT_EQ(stream->repairs().replays, 0);
}

TEST(RnnStreamTest, AThousandSessionsAreSpread) {
  FakeStreamServer servers[3];
  const std::string addresses = servers[0].address() + "," + servers[1].address() + "," + servers[2].address();
  for (int k = 0; k < 1000; ++k) ASSERT_TRUE(RnnStream::Open({addresses}, kSpec).ok());
  for (FakeStreamServer& server : servers) {
    EXPECT_THAT(server.opens(), AllOf(Ge(300), Le(366)));
  }
  SessionSpec named = kSpec;
  named.name = "call-7";
  const auto stream = RnnStream::Open({addresses}, named);
  const auto turned = RnnStream::Open({servers[2].address(), servers[0].address(), servers[1].address()}, named);
  ASSERT_TRUE(stream.ok() && turned.ok());
  EXPECT_EQ((*stream)->server(), (*turned)->server()) << "whatever the order of its list";
}

TEST(RnnStreamTest, ASessionOfAKilledServerGoesOnElsewhere) {
  FakeStreamServer servers[3];
  std::optional<FakeStreamServer> killed(std::in_place);
  std::vector<std::string> addresses = {killed->address()};
  for (FakeStreamServer& server : servers) addresses.push_back(server.address());
  const auto stream = OpenTo(addresses, {.checkpoint_every = 3});
  FeedAndCheck(*stream, 0, 10);
  killed.reset();
  FeedAndCheck(*stream, 10, 20);
  EXPECT_EQ(stream->repairs().replays, 1);
  EXPECT_NE(stream->server(), addresses.front());
}

// Of four changes after the last record, each is sent again under its number.
TEST(RnnStreamTest, ADurableSessionKeepsItsKeyOnAnotherServer) {
  for (const bool is_killed : {false, true}) {
    FakeStreamServer first, second;
    first.ShareStoreWith(second, /*write_every=*/8);
    SessionSpec spec = kSpec;
    spec.durability = Durability::kInterval;
    const auto opened = RnnStream::Open({first.address(), second.address()}, spec, {.load_balancing = kFirst});
    ASSERT_TRUE(opened.ok()) << opened.status();
    RnnStream& stream = **opened;
    FeedAndCheck(stream, 0, 12);
    const std::string key = stream.key();
    is_killed ? first.Stop() : first.Drain();
    FeedAndCheck(stream, 12, 30);
    EXPECT_EQ(stream.key(), key);
    EXPECT_EQ(stream.server(), second.address());
    EXPECT_EQ(stream.repairs().takeovers, 1);
    EXPECT_EQ(stream.repairs().replays + stream.repairs().hand_overs, 0);
    EXPECT_THAT(second.log(), SizeIs(30));
    EXPECT_EQ(second.opens(), 0);
  }
}

TEST(RnnStreamTest, ADurableSessionThatTheStoreHasLostIsRestoredFromASnapshotOrTold) {
  for (const int every : {0, 4}) {
    FakeStreamServer first, second, elsewhere;
    first.ShareStoreWith(elsewhere, /*write_every=*/1);
    SessionSpec spec = kSpec;
    spec.durability = Durability::kSync;
    const auto opened = RnnStream::Open({first.address(), second.address()}, spec,
                                        {.checkpoint_every = every, .load_balancing = kFirst});
    ASSERT_TRUE(opened.ok()) << opened.status();
    FeedAndCheck(**opened, 0, 10);
    first.Stop();
    if (every > 0) {
      FeedAndCheck(**opened, 10, 20);
      EXPECT_EQ((*opened)->repairs().replays, 1);
    } else {
      EXPECT_EQ((*opened)->Feed(Named("x")).status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

TEST(RnnStreamTest, AServerThatIsNotServingGetsNoSession) {
  FakeStreamServer resting, there;
  resting.SetServing(false);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(OpenTo({resting.address(), there.address()})->server(), there.address());
  EXPECT_EQ(resting.opens(), 0);
  EXPECT_EQ(OpenTo({resting.address()})->server(), resting.address()) << "a lone one may say what it likes";
}

TEST(RnnStreamTest, OpenTriesEachServerAndExplains) {
  FakeStreamServer leaving, there;
  leaving.Drain();
  EXPECT_EQ(OpenTo({leaving.address(), there.address()})->server(), there.address());
  const absl::Status nobody =
      RnnStream::Open({"127.0.0.1:1"}, kSpec, {.max_wait = std::chrono::milliseconds(2000)}).status();
  EXPECT_EQ(ReasonOf(nobody), kCannotConnect);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("(tried "));
  EXPECT_EQ(RnnStream::Open({}, kSpec).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(RnnStream::Open({"h:1"}, kSpec, {.max_in_flight = 0}).status()), "max_in_flight");
}

}  // namespace
}  // namespace rnnserve::client
