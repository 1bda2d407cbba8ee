// SPDX-License-Identifier: Apache-2.0
// The store against a cluster of three masters, and a replica of the first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "absl/strings/match.h"
#include "server/store/redis_store.h"
#include "tests/server/store/redis_process.h"
#include "tests/server/store/store_calls.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

constexpr int kSessions = 60;

class RedisClusterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!HasRedis()) return;
    const std::vector<std::string> arguments = {"--cluster-enabled",
                                                "yes",
                                                "--cluster-node-timeout",
                                                "500",
                                                "--cluster-require-full-coverage",
                                                "no",
                                                "--repl-ping-replica-period",
                                                "1",
                                                "--cluster-replica-validity-factor",
                                                "0",
                                                "--repl-diskless-sync-delay",
                                                "0"};
    nodes_ = new std::array<std::unique_ptr<RedisProcess>, 4>;
    for (auto& node : *nodes_) node = std::make_unique<RedisProcess>(arguments);
    for (size_t i = 0; i < 3; ++i) {
      const std::string first = std::to_string(i * kSlots / 3);
      const std::string last = std::to_string((i + 1) * kSlots / 3 - 1);
      EXPECT_EQ(At(i).AskText({"CLUSTER", "ADDSLOTSRANGE", first, last}), "OK");
      EXPECT_EQ(At(i).AskText({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)}), "OK");
    }
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(At(0).AskText({"CLUSTER", "MEET", "127.0.0.1", std::to_string(At(i).host().port)}), "OK");
    }
    for (size_t i = 0; i < 4; ++i) WaitUntil(i, {"CLUSTER", "INFO"}, "cluster_known_nodes:4");
    WaitUntil(3, {"CLUSTER", "NODES"}, At(0).AskText({"CLUSTER", "MYID"}));
    EXPECT_EQ(At(3).AskText({"CLUSTER", "REPLICATE", At(0).AskText({"CLUSTER", "MYID"})}), "OK");
    for (size_t i = 0; i < 4; ++i) WaitUntil(i, {"CLUSTER", "INFO"}, "cluster_slots_ok:16384");
    for (size_t i = 0; i < 4; ++i) WaitUntil(i, {"CLUSTER", "INFO"}, "cluster_state:ok");
  }
  static void TearDownTestSuite() { delete std::exchange(nodes_, nullptr); }

  void SetUp() override {
    RNNSERVE_SKIP_WITHOUT_REDIS();
    store_ = MakeStore({.address = ParseStoreAddress(Url()).value(), .silence = absl::Seconds(1)});
  }

  static RedisProcess& At(size_t node) { return *(*nodes_)[node]; }
  static std::string Url() { return "redis+cluster://" + HostText(At(1).host()) + "," + HostText(At(0).host()); }
  static void WaitUntil(size_t node, const std::vector<std::string>& words, const std::string& text) {
    const absl::Time end = SteadyNow() + kLong;
    while (!absl::StrContains(At(node).AskText(words), text)) {
      ASSERT_LT(SteadyNow(), end) << words[0] << " " << words[1] << " of node " << node << " lacks " << text;
      std::this_thread::yield();
    }
  }
  static size_t NodeOf(int session) { return static_cast<size_t>(SlotOf(KeyText(session))) * 3 / kSlots; }
  static int SessionOn(size_t node, int first) {
    while (NodeOf(first) != node) ++first;
    return first;
  }

  static std::array<std::unique_ptr<RedisProcess>, 4>* nodes_;
  std::unique_ptr<RedisStore> store_;
};

std::array<std::unique_ptr<RedisProcess>, 4>* RedisClusterTest::nodes_ = nullptr;

TEST_F(RedisClusterTest, SessionsAreSpreadOverTheNodes) {
  for (int i = 0; i < kSessions; ++i) ASSERT_EQ(Write(*store_, i, 1, std::to_string(i)), absl::OkStatus());
  for (size_t node = 0; node < 3; ++node) EXPECT_GT(std::stoi(At(node).AskText({"DBSIZE"})), kSessions / 6);
  for (int i = 0; i < kSessions; ++i) EXPECT_EQ(Take(*store_, i, 2).value(), std::to_string(i));
  EXPECT_TRUE(store_->IsReachable());
}

TEST_F(RedisClusterTest, ASlotThatMoves) {
  const int session = SessionOn(0, 1000);
  const std::string slot = std::to_string(SlotOf(KeyText(session)));
  const std::string from = At(0).AskText({"CLUSTER", "MYID"});
  const std::string to = At(1).AskText({"CLUSTER", "MYID"});
  ASSERT_EQ(Write(*store_, SessionOn(0, 2000), 1, "connected"), absl::OkStatus());

  // On its way, keys that are not there yet are asked of the new node.
  EXPECT_EQ(At(1).AskText({"CLUSTER", "SETSLOT", slot, "IMPORTING", from}), "OK");
  EXPECT_EQ(At(0).AskText({"CLUSTER", "SETSLOT", slot, "MIGRATING", to}), "OK");
  EXPECT_EQ(Write(*store_, session, 1, "asked"), absl::OkStatus());
  EXPECT_EQ(At(0).AskText({"CLUSTER", "COUNTKEYSINSLOT", slot}), "0");
  EXPECT_EQ(At(1).AskText({"CLUSTER", "COUNTKEYSINSLOT", slot}), "1");
  EXPECT_EQ(Take(*store_, session, 1).value(), "asked");

  EXPECT_EQ(At(1).AskText({"CLUSTER", "SETSLOT", slot, "NODE", to}), "OK");
  EXPECT_EQ(At(0).AskText({"CLUSTER", "SETSLOT", slot, "NODE", to}), "OK");
  EXPECT_EQ(Write(*store_, session, 1, "moved"), absl::OkStatus());
  EXPECT_EQ(Take(*store_, session, 2).value(), "moved");
}

TEST_F(RedisClusterTest, ANodeThatIsAwayTakesOnlyItsSessionsAlong) {
  const int gone = SessionOn(2, 3000);
  const int other = SessionOn(1, 3000);
  ASSERT_EQ(Write(*store_, gone, 1, "x"), absl::OkStatus());
  At(2).Kill();
  const absl::Status refused = Write(*store_, WriteRequestOf(gone, 1, "y", absl::Milliseconds(500)));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_FALSE(store_->IsReachable());
  EXPECT_EQ(Write(*store_, other, 1, "y"), absl::OkStatus());
  At(2).Start();
  EXPECT_EQ(Write(*store_, gone, 1, "z"), absl::OkStatus());
  while (!store_->IsReachable()) std::this_thread::yield();
}

// The last one: the first node is gone afterwards.
TEST_F(RedisClusterTest, ReplicaTakesOver) {
  const int session = SessionOn(0, 4000);
  ASSERT_EQ(Write(*store_, session, 1, "before"), absl::OkStatus());
  while (At(3).AskText({"DBSIZE"}) != At(0).AskText({"DBSIZE"})) std::this_thread::yield();
  At(0).Kill();
  EXPECT_EQ(Write(*store_, session, 1, "after"), absl::OkStatus());
  EXPECT_EQ(Take(*store_, session, 2).value(), "after");
  EXPECT_THAT(At(3).AskText({"INFO", "replication"}), HasSubstr("role:master"));
  while (!store_->IsReachable()) std::this_thread::yield();
}

}  // namespace
}  // namespace rnnserve
