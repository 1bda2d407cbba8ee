// SPDX-License-Identifier: Apache-2.0
// An Infer that is sent again, over gRPC. When and where in detail: tries_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "base/field_error.h"
#include "client/cpp/client.h"
#include "client/cpp/status.h"
#include "tests/client/cpp/fake_server.h"

namespace rnnserve::client {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

google::protobuf::Any RetryDetail(int ms) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(ms / 1000);
  retry.mutable_retry_delay()->set_nanos(ms % 1000 * 1'000'000);
  return Pack(retry);
}

// Refuses so many calls, and counts all.
class Refusing {
 public:
  Refusing(FakeServer& server, int refusals, FakeStatus refusal) {
    server.on_infer = [this, refusals, refusal](const v1::InferRequest&, v1::InferResponse&) {
      return ++calls < refusals + 1 ? refusal : FakeStatus{};
    };
  }
  std::atomic<int> calls = 0;
};

absl::Status InferOnce(Client& client) { return client.Infer(ModelRef{"m"}, {}).status(); }

TEST(InferCallsTest, AServerThatRefusesIsAskedAgain) {
  FakeServer server;
  Refusing refusing(server, 3, {14, "leaving", {RetryDetail(1)}});
  EXPECT_TRUE(InferOnce(*Client::Create(server.address()).value()).ok());
  EXPECT_EQ(refusing.calls, 4);
}

TEST(InferCallsTest, AServerThatComesBackOnItsPort) {
  std::optional<FakeServer> server(std::in_place);
  Refusing first(*server, 0, {});
  const auto client = Client::Create(server->address()).value();
  EXPECT_TRUE(InferOnce(*client).ok());
  const int port = server->port();
  server.reset();
  auto result = std::async(std::launch::async, [&] { return InferOnce(*client); });
  do {
    server.emplace(port);  // one that knows no Infer, so that nothing is set while it may be asked
  } while (!server->is_there() && result.wait_for(milliseconds(10)) != std::future_status::ready);
  EXPECT_TRUE(absl::IsUnimplemented(result.get()));
}

TEST(InferCallsTest, AnotherServerIsAskedAtOnceAndFirstForAWhile) {
  FakeServer leaving, there;
  Refusing refusing(leaving, 100, {14, "leaving", {RetryDetail(600'000)}});
  Refusing taking(there, 0, {});
  const auto client =
      Client::Create(leaving.address(), {.others = {there.address()}, .load_balancing = LoadBalancing::kPickFirst})
          .value();
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(refusing.calls, 1);
  EXPECT_EQ(taking.calls, 3);
}

TEST(InferCallsTest, CallsAreSpread) {
  FakeServer first, second;
  Refusing here(first, 0, {}), there(second, 0, {});
  const auto client = Client::Create(first.address() + "," + second.address()).value();
  for (int k = 0; k < 100; ++k) EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(here.calls, 50);
  EXPECT_EQ(there.calls, 50);
}

// Its calls still come through: only its health tells.
TEST(InferCallsTest, AServerThatIsNotServingGetsNothingUntilItIs) {
  FakeServer there, resting;
  Refusing taking(there, 0, {}), avoided(resting, 0, {});
  const auto client = Client::Create(there.address(), {.others = {resting.address()}}).value();
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(avoided.calls, 2);
  resting.SetServing(false);
  int before = 0;
  do {  // until the news has come
    before = avoided.calls;
    for (int k = 0; k < 6; ++k) EXPECT_TRUE(InferOnce(*client).ok());
  } while (avoided.calls > before);
  for (int k = 0; k < 60; ++k) EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(avoided.calls, before);
  resting.SetServing(true);
  while (avoided.calls == before) ASSERT_TRUE(InferOnce(*client).ok());
}

TEST(InferCallsTest, AServerThatIsGoneGetsNothing) {
  FakeServer there;
  Refusing taking(there, 0, {});
  std::optional<FakeServer> gone(std::in_place);
  const auto client = Client::Create(there.address(), {.others = {gone->address()}}).value();
  gone.reset();
  for (int k = 0; k < 8; ++k) EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(taking.calls, 8);
}

TEST(InferCallsTest, OneOfThreeIsKilledAndComesBack) {
  FakeServer first, third;
  Refusing one(first, 0, {}), three(third, 0, {});
  std::optional<FakeServer> second(std::in_place);
  Refusing two(*second, 0, {});
  const auto client = Client::Create(first.address(), {.others = {second->address(), third.address()}}).value();
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0, back = 0;
  std::vector<std::thread> callers;
  for (int k = 0; k < 4; ++k) {
    callers.emplace_back([&] {
      while (!stop) {
        const absl::Status status = InferOnce(*client);
        if (absl::IsUnimplemented(status)) {
          ++back;
        } else {
          // CANCELLED: gRPC's server, unlike a killed process, answers a call that meets its Shutdown.
          failed += !status.ok() && !absl::IsCancelled(status);
        }
      }
    });
  }
  const auto until = [](std::atomic<int>& calls, int count) {
    for (const int from = calls; calls < from + count;) std::this_thread::yield();
  };
  until(one.calls, 50);
  EXPECT_GT(two.calls, 0);
  const int port = second->port();
  second.reset();
  until(one.calls, 50);
  do {
    second.emplace(port);  // one that knows no Infer, so that nothing is set while it is asked
  } while (!second->is_there());
  until(back, 50);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failed, 0);
}

TEST(InferCallsTest, AnEngineOutOfServiceIsAskedForElsewhereOnly) {
  FakeServer first, second;
  const FakeStatus lost{14, "the device is lost", {ReasonDetail("ENGINE_OUT_OF_SERVICE")}};
  Refusing here(first, 1, lost);
  Refusing there(second, 0, {});
  const auto client =
      Client::Create(first.address(), {.others = {second.address()}, .load_balancing = LoadBalancing::kPickFirst})
          .value();
  EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(there.calls, 1);
  EXPECT_TRUE(InferOnce(*client).ok());
  EXPECT_EQ(here.calls, 2) << "it takes other calls";

  Refusing never(first, 1000, lost);
  Refusing nor(second, 1000, lost);
  const absl::Status status = InferOnce(*client);
  EXPECT_EQ(ReasonOf(status), "ENGINE_OUT_OF_SERVICE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("tried 2 times"));
  EXPECT_EQ(never.calls, 1);
  EXPECT_EQ(nor.calls, 1);
}

TEST(InferCallsTest, TheTimeoutEndsIt) {
  FakeServer server;
  Refusing refusing(server, 1000, {14, "leaving", {RetryDetail(5000)}});
  const auto client = Client::Create(server.address(), {.timeout = milliseconds(4000)}).value();
  const absl::Status status = InferOnce(*client);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(refusing.calls, 1) << "it would be over by then";

  Refusing soon(server, 1000, {14, "leaving", {RetryDetail(20)}});
  const absl::Status late = client->Infer(ModelRef{"m"}, {}, {.timeout = milliseconds(300)}).status();
  EXPECT_THAT(std::string(late.message()), HasSubstr("leaving"));
  EXPECT_THAT(std::string(late.message()), HasSubstr("(tried "));
  EXPECT_GT(soon.calls, 1);
}

TEST(InferCallsTest, WithoutPatienceEachIsAskedOnce) {
  FakeServer first, second;
  Refusing here(first, 1, {14, "leaving", {RetryDetail(1)}}), there(second, 2, {14, "leaving", {RetryDetail(1)}});
  const auto client =
      Client::Create(first.address(), {.others = {second.address()}, .patience = milliseconds(0)}).value();
  EXPECT_FALSE(InferOnce(*client).ok());
  EXPECT_EQ(here.calls + there.calls, 2);
  EXPECT_TRUE(client->Infer(ModelRef{"m"}, {}, {.timeout = milliseconds(0)}).ok()) << "the second refuses once more";
}

TEST(InferCallsTest, ItCanBeSwitchedOff) {
  FakeServer server;
  Refusing refusing(server, 1, {14, "leaving", {RetryDetail(1)}});
  const auto client = Client::Create(server.address(), {.patience = milliseconds(0)}).value();
  EXPECT_EQ(InferOnce(*client).message(), "leaving");
  EXPECT_EQ(refusing.calls, 1);
  EXPECT_FALSE(Client::Create(server.address(), {.patience = milliseconds(-1)}).ok());
  EXPECT_FALSE(Client::Create(server.address(), {.others = {"nowhere"}}).ok());
}

TEST(InferCallsTest, OtherCodesAreNotSentAgain) {
  FakeServer server;
  const auto client = Client::Create(server.address()).value();
  for (int code = 1; code <= 16; ++code) {
    if (code == 14) continue;
    Refusing refusing(server, 1, {code, "no", {RetryDetail(1)}});
    const absl::Status status = InferOnce(*client);
    EXPECT_EQ(status.raw_code(), code);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("tried"))) << code;
    EXPECT_EQ(refusing.calls, 1) << code;
  }
}

TEST(InferCallsTest, OtherCallsAreNotSentAgain) {
  FakeServer server;
  int calls = 0;
  server.on_list = [&](v1::ListModelsResponse&) {
    ++calls;
    return FakeStatus{14, "leaving", {RetryDetail(1)}};
  };
  EXPECT_FALSE(Client::Create(server.address()).value()->List().ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace rnnserve::client
