// SPDX-License-Identifier: Apache-2.0
// The store against a master, its replica, and a Sentinel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "absl/strings/match.h"
#include "server/store/redis_store.h"
#include "tests/server/store/fake_redis.h"
#include "tests/server/store/redis_process.h"
#include "tests/server/store/store_calls.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

class RedisSentinelTest : public testing::Test {
 protected:
  void SetUp() override {
    RNNSERVE_SKIP_WITHOUT_REDIS();
    master_ = std::make_unique<RedisProcess>(std::vector<std::string>{"--repl-diskless-sync-delay", "0"});
    const std::string port = std::to_string(master_->host().port);
    replica_ = std::make_unique<RedisProcess>(std::vector<std::string>{"--replicaof", "127.0.0.1 " + port});
    while (!Tells(*master_, {"INFO", "replication"}, "state=online")) std::this_thread::yield();
    const std::string config = (master_->folder() / "sentinel.conf").string();
    std::ofstream(config) << "sentinel monitor records 127.0.0.1 " << port << " 1\n"
                          << "sentinel down-after-milliseconds records 200\n"
                          << "sentinel failover-timeout records 1000\n";
    sentinel_ = std::make_unique<RedisProcess>(std::vector<std::string>{config, "--sentinel"});
    while (!Tells(*sentinel_, {"INFO", "sentinel"}, "slaves=1")) std::this_thread::yield();
  }

  static bool Tells(const RedisProcess& redis, const std::vector<std::string>& words, const std::string& text) {
    return absl::StrContains(redis.AskText(words), text);
  }
  // The first Sentinel of the URL is away.
  std::string Url(const std::string& name) const {
    return "redis+sentinel://127.0.0.1:1," + HostText(sentinel_->host()) + "/" + name;
  }

  std::unique_ptr<RedisProcess> master_;
  std::unique_ptr<RedisProcess> replica_;
  std::unique_ptr<RedisProcess> sentinel_;
};

TEST_F(RedisSentinelTest, TheReplicaTakesOver) {
  const auto store = MakeStore({.address = ParseStoreAddress(Url("records")).value(), .silence = absl::Seconds(1)});
  ASSERT_EQ(Write(*store, 1, 1, "before"), absl::OkStatus());
  EXPECT_TRUE(store->IsReachable());
  while (replica_->AskText({"DBSIZE"}) != "1") std::this_thread::yield();
  master_->Signal(SIGSTOP);  // not killed: its connection hangs
  EXPECT_EQ(Take(*store, 1, 2).value(), "before");
  EXPECT_EQ(Write(*store, 1, 2, "after"), absl::OkStatus());
  EXPECT_TRUE(Tells(*replica_, {"INFO", "replication"}, "role:master"));
  EXPECT_EQ(replica_->AskText({"EXISTS", KeyText(1)}), "1");
}

TEST_F(RedisSentinelTest, AMasterThatItDoesNotKnow) {
  const auto store = MakeStore(Url("others"));
  const absl::Status refused = Write(*store, WriteRequestOf(1, 1, "x", absl::Milliseconds(300)));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("the Sentinel knows no master \"others\""));
}

// Sentinel still names a master that has been replaced.
TEST(FakeSentinelTest, AReplicaIsNoMaster) {
  const FakeRedis replica([](const std::vector<std::string>& words) -> std::string {
    return words[0] == "ROLE" ? "*1\r\n$5\r\nslave\r\n" : "$2\r\nOK\r\n";
  });
  const FakeRedis sentinel([&](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "PING") return "+PONG\r\n";
    const std::string port = std::to_string(replica.host().port);
    return "*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(port.size()) + "\r\n" + port + "\r\n";
  });
  const auto store = MakeStore("redis+sentinel://" + HostText(sentinel.host()) + "/name");
  const absl::Status refused = Write(*store, WriteRequestOf(1, 1, "x", absl::Milliseconds(300)));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("it is no master"));
}

// Two nodes that send each other's requests away: no storm, and no answer.
TEST(FakeClusterTest, NodesThatDisagree) {
  std::atomic<int> asked = 0;
  std::array<int, 2> ports = {};
  const auto answer = [&](size_t self) {
    return [&, self](const std::vector<std::string>& words) -> std::string {
      if (words[0] == "PING") return "+PONG\r\n";
      if (words[0] == "CLUSTER") {
        return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:" + std::to_string(ports[self]) + "\r\n";
      }
      ++asked;
      return "-MOVED 1 :" + std::to_string(ports[1 - self]) + "\r\n";
    };
  };
  const FakeRedis first(answer(0));
  const FakeRedis second(answer(1));
  ports = {first.host().port, second.host().port};
  const auto store = MakeStore("redis+cluster://" + HostText(first.host()));
  const absl::Status refused = Write(*store, WriteRequestOf(1, 1, "x", absl::Milliseconds(300)));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_GT(asked, 8);
  EXPECT_LT(asked, 8 * 20);
}

}  // namespace
}  // namespace rnnserve
