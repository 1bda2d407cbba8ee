// SPDX-License-Identifier: Apache-2.0
// One Redis: keeps a connection to it, pipelines requests over it, and connects anew after a failure, at a capped and
// jittered pace. Requests wait while it is away; the store ends those whose deadline passes.
//
// All on the loop's thread.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/random/random.h"
#include "server/store/redis_connection.h"
#include "server/store/store_request.h"

namespace rnnserve {

class RedisNode : private RedisConnection::Observer {
 public:
  using RequestPtr = std::shared_ptr<StoreRequest>;

  class Owner {
   public:
    virtual void OnReply(RedisNode& node, const RequestPtr& request, const redisReply& reply) = 0;
    // The connection ended before the reply: it may have been applied.
    virtual void OnUnanswered(const RequestPtr& request, const absl::Status& why) = 0;
    // is_answering() has changed, or another attempt to connect has failed.
    virtual void OnNodeChange(RedisNode& node) = 0;
    virtual void OnBytes(int64_t sent, int64_t received) = 0;

   protected:
    ~Owner() = default;
  };

  struct Backoff {
    absl::Duration first = absl::Milliseconds(20);
    absl::Duration most = absl::Seconds(1);
  };

  // Connects at once.
  RedisNode(std::shared_ptr<EventLoop> loop, ConnectionOptions options, Backoff backoff, StoreHost host, Owner& owner);
  ~RedisNode();

  void Submit(RequestPtr request);
  // Hands back all requests that wait or are unanswered; to be destroyed next.
  std::vector<RequestPtr> TakeAll();
  // Ends the connection, and makes another one, to where the name leads by now.
  void Reconnect(const absl::Status& why);
  // A request has waited for its answer until its deadline.
  void NoteSilence();

  const StoreHost& host() const { return host_; }
  bool is_answering() const { return problem_.ok(); }
  // Its first connection is still being made.
  bool is_new() const { return !is_open_ && failures_ == 0; }
  // Why it is not answering, with its host. UNAVAILABLE, or UNAUTHENTICATED.
  const absl::Status& problem() const { return problem_; }

 private:
  void OnOpen() override;
  void OnReply(const redisReply& reply) override;
  void OnIdle() override;
  void OnClosed(const absl::Status& why) override;
  void OnBytes(int64_t sent, int64_t received) override { owner_.OnBytes(sent, received); }

  void Connect();
  void Pump();
  void SetProblem(absl::Status problem);

  const std::shared_ptr<EventLoop> loop_;
  const ConnectionOptions options_;
  const Backoff backoff_;
  const StoreHost host_;
  Owner& owner_;
  absl::Status problem_;
  std::shared_ptr<RedisConnection> connection_;
  bool is_open_ = false;
  int failures_ = 0;  // in a row
  EventLoop::Timer reconnect_;
  absl::BitGen random_;
  std::deque<RequestPtr> waiting_;
  // Those that are over leave when there are this many; then it becomes twice what is left.
  static constexpr size_t kFirstSweep = 64;
  size_t sweep_at_ = kFirstSweep;
  std::deque<RequestPtr> unanswered_;  // in the order sent; null: a command of the node itself
};

}  // namespace rnnserve
