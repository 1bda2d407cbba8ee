// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/servers.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <tuple>
#include <utility>

#include "client/cpp/status.h"

namespace rnnserve::client {
namespace {

// A server that refused a call is tried after the others for this time, unless it named a longer one itself.
constexpr std::chrono::milliseconds kAvoidTime{1000};

uint64_t AddBytes(uint64_t hash, std::string_view bytes) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return hash;
}

}  // namespace

uint64_t Score(std::string_view name, std::string_view address) {
  uint64_t hash = AddBytes(AddBytes(AddBytes(0xCBF29CE484222325, name), "\n"), address);
  hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCD;
  hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53;
  return hash ^ hash >> 33;
}

std::vector<std::string> OrderForSession(std::vector<std::string> addresses, std::string_view name,
                                         std::string_view route) {
  static std::atomic<uint64_t> turn = std::random_device()();
  auto rest = addresses.begin();
  if (name.empty() && !addresses.empty()) {
    const uint64_t first = turn.fetch_add(1, std::memory_order_relaxed) % addresses.size();
    std::iter_swap(rest, rest + static_cast<std::ptrdiff_t>(first));
    ++rest;
    name = route;
  }
  std::sort(rest, addresses.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(Score(name, b), std::string_view(a)) < std::pair(Score(name, a), std::string_view(b));
  });
  return addresses;
}

Servers::Servers(const std::vector<std::string>& addresses, LoadBalancing load_balancing, Begin begin)
    : load_balancing_(load_balancing), begin_(begin) {
  Set(addresses);
}

void Servers::Set(const std::vector<std::string>& addresses) {
  MutexLock lock(mutex_);
  std::vector<Server> listed;
  std::vector<Server*> added;
  listed.reserve(addresses.size());
  for (const std::string& address : addresses) {
    if (std::any_of(listed.begin(), listed.end(), [&](const Server& other) { return other.address == address; })) {
      continue;
    }
    if (const Server* before = Find(address)) {
      listed.push_back(*before);
    } else {
      listed.push_back({.address = address});
      added.push_back(&listed.back());
    }
  }
  if (begin_ == Begin::kAnywhere) std::shuffle(added.begin(), added.end(), std::minstd_rand(std::random_device()()));
  int64_t called = -static_cast<int64_t>(added.size());
  for (Server* server : added) server->called = called++;
  servers_ = std::move(listed);
}

std::vector<std::string> Servers::addresses() const {
  MutexLock lock(mutex_);
  std::vector<std::string> addresses;
  for (const Server& server : servers_) addresses.push_back(server.address);
  return addresses;
}

std::vector<std::string> Servers::ForCall(TryTime now) const {
  MutexLock lock(mutex_);
  return Order(now);
}

std::vector<std::string> Servers::BeginCall(TryTime now) {
  MutexLock lock(mutex_);
  std::vector<std::string> order = Order(now);
  Server* first = Find(order.front());
  ++first->calls;
  first->called = ++turn_;
  return order;
}

void Servers::Began(const std::string& address) {
  MutexLock lock(mutex_);
  Server* server = Find(address);
  if (server == nullptr) return;
  ++server->calls;
  server->called = ++turn_;
}

void Servers::Ended(const std::string& address) {
  MutexLock lock(mutex_);
  // One that left the list and came back counts from zero.
  if (Server* server = Find(address); server != nullptr && server->calls > 0) --server->calls;
}

void Servers::Took(const std::string& address) {
  MutexLock lock(mutex_);
  if (Server* server = Find(address)) server->avoided_until = {};
}

void Servers::Refused(const std::string& address, const absl::Status& status, TryTime now) {
  if (LacksEngine(status)) return;  // the matter of that call alone
  MutexLock lock(mutex_);
  if (Server* server = Find(address)) {
    server->avoided_until = now + std::max(kAvoidTime, RetryDelayOf(status).value_or(kAvoidTime));
  }
}

std::vector<std::string> Servers::Order(TryTime now) const {
  std::vector<const Server*> order;
  for (const Server& server : servers_) order.push_back(&server);
  const auto rank = [&](const Server* server) {
    const bool spreads = load_balancing_ == LoadBalancing::kSpread;
    return std::tuple(std::max(server->avoided_until, now), spreads ? server->calls : 0, spreads ? server->called : 0);
  };
  std::stable_sort(order.begin(), order.end(), [&](const Server* a, const Server* b) { return rank(a) < rank(b); });
  std::vector<std::string> addresses;
  for (const Server* server : order) addresses.push_back(server->address);
  return addresses;
}

Servers::Server* Servers::Find(const std::string& address) {
  const auto found =
      std::find_if(servers_.begin(), servers_.end(), [&](const Server& server) { return server.address == address; });
  return found == servers_.end() ? nullptr : &*found;
}

}  // namespace rnnserve::client
