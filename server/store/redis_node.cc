// SPDX-License-Identifier: Apache-2.0
#include "server/store/redis_node.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

// Requests beyond these wait in the node, from where a deadline removes them.
constexpr size_t kMostUnsent = size_t{1} << 20;
constexpr size_t kMostUnanswered = 4096;

}  // namespace

RedisNode::RedisNode(std::shared_ptr<EventLoop> loop, ConnectionOptions options, Backoff backoff, StoreHost host,
                     Owner& owner)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      backoff_(backoff),
      host_(std::move(host)),
      owner_(owner),
      problem_(absl::UnavailableError(absl::StrCat(HostText(host_), ": not connected yet"))) {
  Connect();
}

RedisNode::~RedisNode() {
  loop_->Cancel(reconnect_);
  if (connection_ != nullptr) connection_->Abandon();
}

void RedisNode::Connect() { connection_ = RedisConnection::Start(loop_, options_, host_, this); }

void RedisNode::Submit(RequestPtr request) {
  if (waiting_.size() >= sweep_at_) {
    std::erase_if(waiting_, [](const RequestPtr& waiting) { return waiting->done == nullptr; });
    sweep_at_ = std::max(kFirstSweep, 2 * waiting_.size());
  }
  waiting_.push_back(std::move(request));
  Pump();
}

void RedisNode::Pump() {
  while (is_open_ && !waiting_.empty() && unanswered_.size() < kMostUnanswered && connection_->unsent() < kMostUnsent) {
    RequestPtr request = std::move(waiting_.front());
    waiting_.pop_front();
    if (request->done == nullptr) continue;
    if (request->asking) {
      connection_->Send(std::array<std::string_view, 1>{"ASKING"});
      unanswered_.push_back(nullptr);
    }
    connection_->Send(WordsOf(*request));
    unanswered_.push_back(std::move(request));
  }
}

std::vector<RedisNode::RequestPtr> RedisNode::TakeAll() {
  std::vector<RequestPtr> all;
  for (std::deque<RequestPtr>* const some : {&unanswered_, &waiting_}) {
    for (RequestPtr& request : *some) {
      if (request != nullptr && request->done != nullptr) all.push_back(std::move(request));
    }
    some->clear();
  }
  return all;
}

void RedisNode::OnOpen() {
  is_open_ = true;
  failures_ = 0;
  SetProblem(absl::OkStatus());
  Pump();
}

void RedisNode::OnReply(const redisReply& reply) {
  const RequestPtr request = std::move(unanswered_.front());
  unanswered_.pop_front();
  SetProblem(absl::OkStatus());
  if (request != nullptr && request->done != nullptr) owner_.OnReply(*this, request, reply);
  Pump();
}

void RedisNode::OnIdle() {
  connection_->Send(std::array<std::string_view, 1>{"PING"});
  unanswered_.push_back(nullptr);
}

void RedisNode::OnClosed(const absl::Status& why) {
  is_open_ = false;
  absl::Duration pause = backoff_.first * (1 << std::min(failures_++, 16));
  pause = std::min(pause, backoff_.most) * absl::Uniform(random_, 0.5, 1.0);
  reconnect_ = loop_->At(loop_->Now() + pause, [this] { Connect(); });

  const std::deque<RequestPtr> unanswered = std::exchange(unanswered_, {});
  SetProblem(absl::Status(why.code(), absl::StrCat(HostText(host_), ": ", why.message())));
  for (const RequestPtr& request : unanswered) {
    if (request != nullptr && request->done != nullptr) owner_.OnUnanswered(request, problem_);
  }
}

void RedisNode::Reconnect(const absl::Status& why) {
  if (!is_open_) return;
  connection_->Abandon();
  OnClosed(why);
}

void RedisNode::NoteSilence() {
  if (problem_.ok()) {
    SetProblem(absl::UnavailableError(absl::StrCat(HostText(host_), ": no answer before the deadline of a request")));
  }
}

void RedisNode::SetProblem(absl::Status problem) {
  if (problem_.ok() && problem.ok()) return;
  problem_ = std::move(problem);
  owner_.OnNodeChange(*this);
}

}  // namespace rnnserve
