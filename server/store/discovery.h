// SPDX-License-Identifier: Apache-2.0
// Which Redis has which keys by now: asks Sentinels for the master, or a cluster for its slots.
//
//   Discovery discovery(loop, options, [&](absl::StatusOr<SlotMap> found) { ... });
//   discovery.Refresh();          // any number of times: one round at a time, at a bounded pace
//
// A round asks one host after the other until one answers; of a cluster those of the last answer, then those of the
// URL. All on the loop's thread; `found` is called from the loop, never from Refresh.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "server/store/redis_connection.h"
#include "server/store/slot_map.h"

namespace rnnserve {

class Discovery : private RedisConnection::Observer {
 public:
  using Found = std::function<void(absl::StatusOr<SlotMap>)>;

  // `options.address` is of Sentinels or of a cluster.
  Discovery(std::shared_ptr<EventLoop> loop, ConnectionOptions options, Found found);
  ~Discovery();

  void Refresh();

 private:
  void OnOpen() override;
  void OnReply(const redisReply& reply) override;
  void OnIdle() override {}
  void OnClosed(const absl::Status& why) override;
  void OnBytes(int64_t, int64_t) override {}

  void BeginRound();
  void AskNext();
  void EndRound(absl::StatusOr<SlotMap> found);
  bool of_cluster() const { return options_.address.kind == StoreAddress::Kind::kCluster; }

  const std::shared_ptr<EventLoop> loop_;
  const ConnectionOptions options_;
  const Found found_;
  std::vector<StoreHost> known_;  // nodes of the cluster as last told, or the Sentinel that answered last
  bool is_running_ = false;       // a round is planned, or under way
  absl::Time next_round_ = absl::InfinitePast();
  EventLoop::Timer timer_;
  std::vector<StoreHost> left_;  // of the round, the next one last
  StoreHost asked_;
  absl::Status problem_;
  std::shared_ptr<RedisConnection> connection_;
  absl::BitGen random_;
};

// Of CLUSTER SLOTS, asked of `asked`; of SENTINEL GET-MASTER-ADDR-BY-NAME.
absl::StatusOr<SlotMap> ReadClusterSlots(const redisReply& reply, const StoreHost& asked);
absl::StatusOr<SlotMap> ReadMasterAddress(const redisReply& reply, const std::string& master_name);

}  // namespace rnnserve
