// SPDX-License-Identifier: Apache-2.0
// Which node a request goes to, and what becomes of requests as nodes come, go and hand over.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "server/store/redis_store.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

// A request that nodes send on to one another this often waits before it goes on.
constexpr int kMostRedirects = 8;
// While a node does not answer: between questions for a newer map.
constexpr absl::Duration kRediscover = absl::Milliseconds(500);

std::string Text(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

absl::Status RedisStore::Away(std::string_view why) {
  return absl::UnavailableError(absl::StrCat("the session store is away: ", View(why)));
}

void RedisStore::Route(const RequestPtr& request) {
  RedisNode* const node = NodeOf(*request);
  if (node != nullptr) return node->Submit(request);
  homeless_.push_back(request);
  discovery_->Refresh();
}

RedisNode* RedisStore::NodeOf(const StoreRequest& request) {
  const StoreHost* const host = request.redirect ? &*request.redirect : map_.Find(SlotOf(request.key));
  return host == nullptr ? nullptr : &NodeAt(*host);
}

RedisNode& RedisStore::NodeAt(const StoreHost& host) {
  std::unique_ptr<RedisNode>& node = nodes_[host];
  if (node == nullptr) {
    RedisNode::Owner& owner = *this;
    node = std::make_unique<RedisNode>(loop_, ConnectionOptionsOf(false), options_.backoff, host, owner);
  }
  return *node;
}

void RedisStore::Redirect(RedisNode& node, const RequestPtr& request, const RedisError& error) {
  const StoreHost to = {error.to.host.empty() ? node.host().host : error.to.host, error.to.port};
  if (error.kind == RedisError::Kind::kMoved) {
    map_.Set(SlotOf(request->key), SlotOf(request->key), to);
    discovery_->Refresh();
  }
  // Nodes that send it in a circle have not agreed yet.
  if (++request->redirects % kMostRedirects == 0) {
    return RetryLater(request, absl::UnavailableError(absl::StrCat(HostText(node.host()), ": ", error.text)));
  }
  request->asking = error.kind == RedisError::Kind::kAsk;
  request->redirect.reset();
  if (request->asking) request->redirect = to;
  Route(request);
}

// Other requests of a server that refuses the password wait in vain.
void RedisStore::OnNodeChange(RedisNode& node) {
  NoteReachable();
  if (discovery_ != nullptr && !node.is_answering()) discovery_->Refresh();
  if (!absl::IsUnauthenticated(node.problem())) return;
  for (const RequestPtr& request : node.TakeAll()) {
    live_.erase(request);
    loop_->Cancel(request->timer);
    Finish(*request, Away(Text(node.problem())));
  }
}

void RedisStore::OnFound(absl::StatusOr<SlotMap> found) {
  if (found.ok()) {
    UseMap(*std::move(found));
  } else {
    discovery_problem_ = found.status();
    std::erase_if(homeless_, [](const RequestPtr& request) { return request->done == nullptr; });
    NoteReachable();
  }
  if (absl::IsUnauthenticated(discovery_problem_) && map_.hosts().empty()) {
    for (const RequestPtr& request : std::exchange(homeless_, {})) {
      live_.erase(request);
      loop_->Cancel(request->timer);
      Finish(*request, Away(Text(discovery_problem_)));
    }
  }
  // Until all nodes answer: a failover shows when it is over.
  loop_->Cancel(rediscover_);
  if (!IsReachable()) rediscover_ = loop_->At(loop_->Now() + kRediscover, [this] { discovery_->Refresh(); });
}

// Never called from a node, for it ends nodes.
void RedisStore::UseMap(SlotMap map) {
  map_ = std::move(map);
  std::vector<RequestPtr> moved = std::exchange(homeless_, {});
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const bool stays = std::find(map_.hosts().begin(), map_.hosts().end(), node->first) != map_.hosts().end();
    if (!stays) {
      for (RequestPtr& request : node->second->TakeAll()) {
        request->redirect.reset();
        request->asking = false;
        moved.push_back(std::move(request));
      }
    }
    node = stays ? std::next(node) : nodes_.erase(node);
  }
  for (const StoreHost& host : map_.hosts()) NodeAt(host);
  for (const RequestPtr& request : moved) {
    if (request->done != nullptr) Route(request);
  }
  NoteReachable();
}

ConnectionOptions RedisStore::ConnectionOptionsOf(bool of_discovery) const {
  const bool of_sentinel = options_.address.kind == StoreAddress::Kind::kSentinel;
  ConnectionOptions options = {.address = options_.address,
                               .must_be_master = of_sentinel && !of_discovery,
                               .auth_may_fail = of_sentinel && of_discovery,
                               .connect_timeout = options_.connect_timeout,
                               .silence = options_.silence};
  if (of_discovery) options.address.db = 0;
  return options;
}

void RedisStore::NoteReachable() {
  std::string problem = map_.hosts().empty() ? Text(discovery_problem_) : "";
  bool is_new = false;
  for (const StoreHost& host : map_.hosts()) {
    const RedisNode& node = NodeAt(host);
    is_new = is_new || node.is_new();
    if (!node.is_answering()) problem = Text(node.problem());
  }
  const bool reachable = problem.empty();
  reachable_.store(reachable, std::memory_order_relaxed);
  if (options_.metrics != nullptr) options_.metrics->reachable->Set(reachable ? 1 : 0);
  if (is_new || problem == logged_problem_) return;
  if (reachable) {
    LogInfo("the session store answers");
  } else if (const auto skipped = log_limit_.Allow(loop_->Now()); !skipped) {
    return;
  } else {
    LogWarning("the session store is away", {{"reason", problem}});
  }
  logged_problem_ = problem;
}

}  // namespace rnnserve
