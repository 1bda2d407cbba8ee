// SPDX-License-Identifier: Apache-2.0
#include "server/store/discovery.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "server/store/redis_error.h"

namespace rnnserve {
namespace {

// Between the ends of rounds: 0.5 to 1 of this.
constexpr absl::Duration kPause = absl::Milliseconds(400);

std::span<redisReply* const> Elements(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ARRAY
             ? std::span<redisReply* const>(reply.element, static_cast<size_t>(reply.elements))
             : std::span<redisReply* const>();
}

bool IsPort(long long port) { return port >= 1 && port <= 65535; }

absl::Status Nonsense(std::string_view command) {
  return absl::UnavailableError(absl::StrCat("it answers ", View(command), " otherwise than Redis"));
}

}  // namespace

absl::StatusOr<SlotMap> ReadClusterSlots(const redisReply& reply, const StoreHost& asked) {
  SlotMap map;
  for (const redisReply* range : Elements(reply)) {
    const auto parts = Elements(*range);
    if (parts.size() < 3 || parts[0]->type != REDIS_REPLY_INTEGER || parts[1]->type != REDIS_REPLY_INTEGER) {
      return Nonsense("CLUSTER SLOTS");
    }
    const auto master = Elements(*parts[2]);
    const long long first = parts[0]->integer;
    const long long last = parts[1]->integer;
    if (first < 0 || first > last || last >= kSlots || master.size() < 2 || master[1]->type != REDIS_REPLY_INTEGER ||
        !IsPort(master[1]->integer)) {
      return Nonsense("CLUSTER SLOTS");
    }
    std::string host(ReplyText(*master[0]));
    if (host == "?") continue;  // the node does not know it yet
    if (host.empty()) host = asked.host;
    map.Set(static_cast<int>(first), static_cast<int>(last), {std::move(host), static_cast<int>(master[1]->integer)});
  }
  if (map.hosts().empty()) return absl::UnavailableError("no node of the cluster has slots");
  return map;
}

absl::StatusOr<SlotMap> ReadMasterAddress(const redisReply& reply, const std::string& master_name) {
  if (reply.type == REDIS_REPLY_NIL) {
    return absl::UnavailableError(absl::StrCat("the Sentinel knows no master \"", master_name, "\""));
  }
  const auto parts = Elements(reply);
  int port = 0;
  if (parts.size() != 2 || ReplyText(*parts[0]).empty() || !absl::SimpleAtoi(View(ReplyText(*parts[1])), &port) ||
      !IsPort(port)) {
    return Nonsense("SENTINEL GET-MASTER-ADDR-BY-NAME");
  }
  return SlotMap::OfOne({std::string(ReplyText(*parts[0])), port});
}

Discovery::Discovery(std::shared_ptr<EventLoop> loop, ConnectionOptions options, Found found)
    : loop_(std::move(loop)), options_(std::move(options)), found_(std::move(found)) {}

Discovery::~Discovery() {
  loop_->Cancel(timer_);
  if (connection_ != nullptr) connection_->Abandon();
}

void Discovery::Refresh() {
  if (std::exchange(is_running_, true)) return;
  timer_ = loop_->At(std::max(loop_->Now(), next_round_), [this] { BeginRound(); });
}

void Discovery::BeginRound() {
  left_ = known_;
  for (const StoreHost& host : options_.address.hosts) {
    if (std::find(left_.begin(), left_.end(), host) == left_.end()) left_.push_back(host);
  }
  std::reverse(left_.begin(), left_.end());
  AskNext();
}

void Discovery::AskNext() {
  if (left_.empty()) return EndRound(problem_);
  asked_ = std::move(left_.back());
  left_.pop_back();
  connection_ = RedisConnection::Start(loop_, options_, asked_, this);
}

void Discovery::OnOpen() {
  if (of_cluster()) return connection_->Send(std::array<std::string_view, 2>{"CLUSTER", "SLOTS"});
  connection_->Send(
      std::array<std::string_view, 3>{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options_.address.master_name});
}

void Discovery::OnReply(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) {
    connection_->Abandon();
    return OnClosed(absl::UnavailableError(ReadRedisError(ReplyText(reply)).text));
  }
  absl::StatusOr<SlotMap> read =
      of_cluster() ? ReadClusterSlots(reply, asked_) : ReadMasterAddress(reply, options_.address.master_name);
  connection_->Abandon();
  if (!read.ok()) return OnClosed(read.status());
  known_ = of_cluster() ? read->hosts() : std::vector<StoreHost>{asked_};
  EndRound(std::move(read));
}

void Discovery::OnClosed(const absl::Status& why) {
  problem_ = absl::Status(why.code(), absl::StrCat(HostText(asked_), ": ", why.message()));
  AskNext();
}

void Discovery::EndRound(absl::StatusOr<SlotMap> found) {
  is_running_ = false;
  next_round_ = loop_->Now() + kPause * absl::Uniform(random_, 0.5, 1.0);
  found_(std::move(found));
}

}  // namespace rnnserve
