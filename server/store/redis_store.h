// SPDX-License-Identifier: Apache-2.0
// Records of sessions in Redis or Valkey: one Redis, the master that Sentinels name, or a cluster.
//
//   absl::StatusOr<StoreAddress> address = ParseStoreAddress("redis://localhost:6379");
//   auto store = RedisStore::Create({.address = *address, .metrics = &metrics});
//   (*store)->Write({.id = id, .fence = fence, .record = bytes, .deadline = SteadyNow() + absl::Seconds(1)}, done);
//
// One thread of its own sends what all callers ask, over one pipelined connection a node, and calls each `done`. What
// takes long in a `done` holds up the others.
//
// A request that meets a failure which may pass (no connection, a failover, a Redis that loads) is tried again until
// its deadline. Where the password is wrong, requests fail at once.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/steady_now.h"
#include "server/sessions/contract/session_store.h"
#include "server/store/discovery.h"
#include "server/store/redis_error.h"
#include "server/store/redis_node.h"
#include "server/store/slot_map.h"
#include "server/telemetry/log_limit.h"
#include "server/telemetry/store_metrics.h"

namespace rnnserve {

class RedisStore final : public SessionStore, private RedisNode::Owner {
 public:
  struct Options {
    StoreAddress address = {};
    // Bounds on requests without an answer; beyond them RESOURCE_EXHAUSTED.
    int64_t most_requests = 65'536;
    int64_t most_bytes = int64_t{256} << 20;
    // A request waits for no longer, whatever its deadline.
    absl::Duration most_wait = absl::Seconds(30);
    absl::Duration connect_timeout = absl::Seconds(2);
    absl::Duration silence = absl::Seconds(3);  // as ConnectionOptions has it
    RedisNode::Backoff backoff = {};            // between attempts to connect
    std::function<absl::Time()> now = SteadyNow;
    StoreMetrics* metrics = nullptr;  // outlives the store; null: nothing is counted
  };

  // Does not wait for a connection. FAILED_PRECONDITION: a file of the address cannot be read, or is not what it should
  // be.
  static absl::StatusOr<std::unique_ptr<RedisStore>> Create(Options options);
  // Requests without an answer end as UNAVAILABLE.
  ~RedisStore() override;

  void Write(WriteRequest request, WriteDone done) override;
  void Take(const SessionId& id, const StoreFence& fence, absl::Time deadline, ReadDone done) override;
  void Read(const SessionId& id, absl::Time deadline, ReadDone done) override;
  bool IsReachable() const override { return reachable_.load(std::memory_order_relaxed); }

 private:
  using RequestPtr = RedisNode::RequestPtr;

  RedisStore(Options options, std::shared_ptr<EventLoop> loop);

  static absl::Status Away(std::string_view why);
  void Start(StoreRequest made, absl::Time deadline, StoreRequest::Done done);
  void StartRead(StoreRequest made, absl::Time deadline, ReadDone done);
  void Finish(StoreRequest& request, absl::StatusOr<std::string> result);

  // Of the loop's thread.
  void TakeIncoming();
  void Route(const RequestPtr& request);
  void RetryLater(const RequestPtr& request, absl::Status why);
  void OnDeadline(const RequestPtr& request);
  void OnError(RedisNode& node, const RequestPtr& request, const RedisError& error);
  void Redirect(RedisNode& node, const RequestPtr& request, const RedisError& error);
  // Null: no node is known to have its slot.
  RedisNode* NodeOf(const StoreRequest& request);
  RedisNode& NodeAt(const StoreHost& host);
  void OnFound(absl::StatusOr<SlotMap> found);
  void UseMap(SlotMap map);
  ConnectionOptions ConnectionOptionsOf(bool of_discovery) const;
  void NoteReachable();
  void OnReply(RedisNode& node, const RequestPtr& request, const redisReply& reply) override;
  void OnUnanswered(const RequestPtr& request, const absl::Status& why) override;
  void OnNodeChange(RedisNode& node) override;
  void OnBytes(int64_t sent, int64_t received) override;

  const Options options_;
  const std::shared_ptr<EventLoop> loop_;
  std::atomic<uint64_t> serial_ = 0;
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<bool> reachable_ = false;

  Mutex mutex_;
  std::vector<RequestPtr> incoming_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the loop's thread.
  absl::flat_hash_set<RequestPtr> live_;
  SlotMap map_;
  std::unique_ptr<Discovery> discovery_;  // null: there is one Redis, at its address
  absl::Status discovery_problem_ = absl::UnavailableError("its nodes are not known yet");
  std::vector<RequestPtr> homeless_;  // until the node of their slot is known
  EventLoop::Timer rediscover_;
  std::map<StoreHost, std::unique_ptr<RedisNode>> nodes_;
  absl::BitGen random_;
  std::string logged_problem_ = "no connection yet";  // empty: it was reachable
  LogLimit log_limit_{absl::Seconds(10)};

  std::thread thread_;
};

}  // namespace rnnserve
