// SPDX-License-Identifier: Apache-2.0
// The store while its Redis is slow, away, full, of another password, or nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "server/store/redis_store.h"
#include "tests/server/store/fake_redis.h"
#include "tests/server/store/redis_process.h"
#include "tests/server/store/store_calls.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kShort = absl::Milliseconds(300);

class RedisFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    RNNSERVE_SKIP_WITHOUT_REDIS();
    redis_ = std::make_unique<RedisProcess>();
  }

  RedisStore::Options Impatient() const {
    return {.address = ParseStoreAddress(redis_->url()).value(), .connect_timeout = kShort, .silence = kShort};
  }

  std::unique_ptr<RedisProcess> redis_;
};

void ExpectUnavailable(const absl::Status& status, const std::string& text) {
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(text));
}

TEST_F(RedisFaultsTest, OneThatHangsAnswersNoRequestInTimeAndLaterOnesAgain) {
  RedisStore::Options options = Impatient();
  options.silence = absl::Milliseconds(600);
  const auto store = MakeStore(options);
  ASSERT_EQ(Write(*store, 1, 1, "before"), absl::OkStatus());
  redis_->Signal(SIGSTOP);
  ExpectUnavailable(Write(*store, WriteRequestOf(1, 1, "hasty", absl::Milliseconds(1))),
                    "no answer in time; 127.0.0.1:");
  EXPECT_TRUE(store->IsReachable()) << "a short deadline is its caller's";
  ExpectUnavailable(Write(*store, WriteRequestOf(1, 1, "late", kShort)),
                    "the session store is away: no answer in time; 127.0.0.1:");
  EXPECT_FALSE(store->IsReachable());
  // These find no connection: it was closed for its silence, and none is made.
  ExpectUnavailable(Write(*store, WriteRequestOf(1, 1, "late", 4 * kShort)), "the connection was not made in time");
  auto waits = StartWrite(*store, WriteRequestOf(1, 1, "after"));
  redis_->Signal(SIGCONT);
  EXPECT_EQ(waits.get(), absl::OkStatus());
  EXPECT_TRUE(store->IsReachable());
  EXPECT_EQ(Take(*store, 1, 1).value(), "after");
}

TEST_F(RedisFaultsTest, OneThatIsIdleAndHangsIsNoticed) {
  Metrics registry;
  StoreMetrics metrics(registry);
  RedisStore::Options options = Impatient();
  options.metrics = &metrics;
  const auto store = MakeStore(options);
  ASSERT_EQ(Write(*store, 1, 1, "before"), absl::OkStatus());
  redis_->Signal(SIGSTOP);
  while (store->IsReachable()) std::this_thread::yield();
  redis_->Signal(SIGCONT);
  while (!store->IsReachable()) std::this_thread::yield();
}

TEST_F(RedisFaultsTest, RequestsOutliveItsRestart) {
  const auto store = MakeStore(Impatient());
  ASSERT_EQ(Write(*store, 1, 1, "before"), absl::OkStatus());
  redis_->Signal(SIGSTOP);
  auto sent = StartWrite(*store, WriteRequestOf(1, 1, "sent"));
  redis_->Kill();
  auto away = StartWrite(*store, WriteRequestOf(2, 1, "away"));
  ExpectUnavailable(Write(*store, WriteRequestOf(3, 1, "x", kShort)), "Connection refused");
  redis_->Start();
  EXPECT_EQ(sent.get(), absl::OkStatus());
  EXPECT_EQ(away.get(), absl::OkStatus());
  EXPECT_EQ(Take(*store, 1, 1).value(), "sent");
}

TEST_F(RedisFaultsTest, OneThatStartsLater) {
  redis_->Kill();
  const auto store = MakeStore(Impatient());
  EXPECT_FALSE(store->IsReachable());
  auto waits = StartWrite(*store, WriteRequestOf(1, 1, "x"));
  redis_->Start();
  EXPECT_EQ(waits.get(), absl::OkStatus());
}

TEST_F(RedisFaultsTest, OneWithoutMemory) {
  const auto store = MakeStore(Impatient());
  ASSERT_EQ(Write(*store, 1, 1, "before"), absl::OkStatus());
  redis_->AskText({"CONFIG", "SET", "maxmemory", "1"});
  const absl::Status full = Write(*store, 1, 1, "after");
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(full.ToString(), HasSubstr("OOM command not allowed"));
  redis_->AskText({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(Take(*store, 1, 1).value(), "before");
  EXPECT_EQ(Write(*store, 1, 1, "after"), absl::OkStatus());
}

TEST_F(RedisFaultsTest, OneThatForgotTheScripts) {
  const auto store = MakeStore(Impatient());
  ASSERT_EQ(Write(*store, 1, 1, "one"), absl::OkStatus());
  redis_->AskText({"SCRIPT", "FLUSH"});
  EXPECT_EQ(Write(*store, 1, 1, "two"), absl::OkStatus());
  redis_->AskText({"SCRIPT", "FLUSH"});
  EXPECT_EQ(Take(*store, 1, 2).value(), "two");
}

TEST_F(RedisFaultsTest, AReplicaIsNotWrittenTo) {
  const auto store = MakeStore(Impatient());
  ASSERT_EQ(Write(*store, 1, 1, "one"), absl::OkStatus());
  redis_->AskText({"REPLICAOF", "127.0.0.1", "1"});
  ExpectUnavailable(Write(*store, WriteRequestOf(1, 1, "x", kShort)), "READONLY");
  auto waits = StartWrite(*store, WriteRequestOf(1, 1, "two"));
  redis_->AskText({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(waits.get(), absl::OkStatus());
}

TEST_F(RedisFaultsTest, PasswordsComeFromAFileThatIsReadAnew) {
  const std::string file = (redis_->folder() / "password").string();
  const auto set = [&](const std::string& password) { std::ofstream(file) << password << "\n"; };
  redis_->AskText({"ACL", "SETUSER", "writer", "on", ">se cret", "~rnnserve:session:*", "+eval", "+evalsha", "+get",
                   "+getrange", "+set", "+setrange", "+ping"});  // as docs/operations.md says
  redis_->AskText({"CONFIG", "SET", "requirepass", "other"});

  const auto nothing = MakeStore(redis_->url());
  for (int i = 0; i < 3; ++i) ExpectUnavailable(Write(*nothing, 1, 1, "x"), "refused PING: NOAUTH");  // at once

  set("wrong");
  const auto store = MakeStore("redis://writer@" + HostText(redis_->host()) + "?password_file=" + file);
  const absl::Status refused = Write(*store, 1, 1, "x");
  ExpectUnavailable(refused, "refused AUTH: WRONGPASS");
  EXPECT_THAT(refused.ToString(), testing::Not(HasSubstr("wrong ")));
  EXPECT_FALSE(store->IsReachable());
  set("se cret");
  while (!store->IsReachable()) std::this_thread::yield();
  EXPECT_EQ(Write(*store, 1, 1, "x"), absl::OkStatus());
  EXPECT_EQ(Take(*store, 1, 2).value(), "x");
}

TEST_F(RedisFaultsTest, AFileThatIsNotThereIsRefusedAtTheStart) {
  const auto made = RedisStore::Create({.address = ParseStoreAddress("redis://a?password_file=/none").value()});
  EXPECT_TRUE(absl::IsFailedPrecondition(made.status()));
  EXPECT_THAT(made.status().ToString(), HasSubstr("/none: cannot be read"));
}

// What a peer that is no Redis, or a broken one, may send.
TEST(FakeRedisTest, Nonsense) {
  const std::pair<std::string, const char*> greetings[] = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "its answer is not RESP"},
      {"+OK\r\n+OK\r\n+OK\r\n", "it answers PING without PONG"},
      {"-ERR max number of clients reached\r\n", "it refused PING: ERR max number of clients reached"},
      {"-LOADING Redis is loading\r\n", "it refused PING: LOADING"},
  };
  for (const auto& [greeting, text] : greetings) {
    const FakeRedis fake([](const auto&) { return ""; }, greeting);
    const auto store = MakeStore({.address = ParseStoreAddress(fake.url()).value(), .connect_timeout = kShort});
    ExpectUnavailable(Write(*store, WriteRequestOf(1, 1, "x", kShort)), text);
  }
}

TEST(FakeRedisTest, APeerThatSaysNothing) {
  const FakeRedis fake([](const auto&) { return ""; });
  const auto store = MakeStore({.address = ParseStoreAddress(fake.url()).value(), .connect_timeout = kShort / 3});
  ExpectUnavailable(Write(*store, WriteRequestOf(1, 1, "x", 2 * kShort)), "the connection was not made in time");
}

TEST(FakeRedisTest, AnswersThatPassAreTriedAgain) {
  for (const std::string error :
       {"LOADING", "BUSY", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY"}) {
    int left = 2;
    const FakeRedis fake([&](const std::vector<std::string>& words) -> std::string {
      if (words[0] == "PING") return "+PONG\r\n";
      return left-- > 0 ? "-" + error + " for a moment\r\n" : "$2\r\nOK\r\n";
    });
    const auto store = MakeStore(fake.url());
    EXPECT_EQ(Write(*store, 1, 1, "x"), absl::OkStatus()) << error;
  }
}

TEST(FakeRedisTest, OtherAnswersEndTheRequest) {
  const std::pair<const char*, const char*> answers[] = {
      {"-MOVED 1 127.0.0.1:1\r\n", "use redis+cluster://"},
      {"-WRONGTYPE Operation\r\n", "WRONGTYPE"},
      {"-NOPERM no\r\n", "NOPERM"},
      {":1\r\n", "something else than the script says"},
      {"$5\r\nhello\r\n", "something else than the script says"},
      {"*0\r\n", "something else than the script says"},
  };
  for (const auto& [answer, text] : answers) {
    const FakeRedis fake([&, said = answer](const std::vector<std::string>& words) -> std::string {
      return words[0] == "PING" ? "+PONG\r\n" : said;
    });
    const auto store = MakeStore(fake.url());
    const absl::Status refused = Write(*store, 1, 1, "x");
    EXPECT_EQ(refused.code(), *answer == '-' ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable);
    EXPECT_THAT(refused.ToString(), HasSubstr(text));
  }
}

TEST(FakeRedisTest, ConnectionsThatBreakAreMadeAnew) {
  int left = 3;
  const FakeRedis fake([&](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "PING") return "+PONG\r\n";
    return left-- > 0 ? FakeRedis::kHangUp : "$2\r\nOK\r\n";
  });
  const auto store = MakeStore(fake.url());
  EXPECT_EQ(Write(*store, 1, 1, "x"), absl::OkStatus());
  EXPECT_EQ(fake.connections(), 4);
}

TEST(FakeRedisTest, NamesAreLookedUp) {
  const FakeRedis fake([](const std::vector<std::string>& words) -> std::string {
    return words[0] == "PING" ? "+PONG\r\n" : "$2\r\nOK\r\n";
  });
  const auto store = MakeStore("redis://localhost:" + std::to_string(fake.host().port));
  EXPECT_EQ(Write(*store, 1, 1, "x"), absl::OkStatus());
  const auto unknown = MakeStore("redis://name.invalid");
  ExpectUnavailable(Write(*unknown, WriteRequestOf(1, 1, "x", kShort)), "name.invalid");
}

}  // namespace
}  // namespace rnnserve
