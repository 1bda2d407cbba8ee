// SPDX-License-Identifier: Apache-2.0
// The servers of a client: in which order a call or a new session asks them. No gRPC, no clock; inside the library
// only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/cpp/tries.h"
#include "client/cpp/types.h"

namespace rnnserve::client {

// Of rendezvous hashing: a session of that name belongs on the server with the highest score. The Python client
// computes the same (rnnserve/servers.py): FNV-1a over both texts, then the finalizer of MurmurHash3.
uint64_t Score(std::string_view name, std::string_view address);

// By the hash of a session's name; without a name in turn for each program, the others by the hash of `route`.
std::vector<std::string> OrderForSession(std::vector<std::string> addresses, std::string_view name,
                                         std::string_view route);

// From any thread.
class Servers {
 public:
  enum class Begin { kAnywhere, kInOrder };

  // kAnywhere: clients that start at the same time begin with different servers.
  Servers(const std::vector<std::string>& addresses, LoadBalancing load_balancing, Begin begin = Begin::kAnywhere);

  // Another list.
  void Set(const std::vector<std::string>& addresses);
  std::vector<std::string> addresses() const;

  // The one with the fewest calls in flight first, among equals the one that was chosen longest ago. Those that lately
  // took no call are last.
  std::vector<std::string> ForCall(TryTime now) const;
  // The same, and a call begins at the first of them.
  std::vector<std::string> BeginCall(TryTime now);
  void Began(const std::string& address);
  void Ended(const std::string& address);
  void Took(const std::string& address);
  void Refused(const std::string& address, const absl::Status& status, TryTime now);

 private:
  struct Server {
    std::string address;
    TryTime avoided_until = {};
    int64_t calls = 0;   // in flight
    int64_t called = 0;  // when a call last chose it, counted
  };

  std::vector<std::string> Order(TryTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Server* Find(const std::string& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LoadBalancing load_balancing_;
  const Begin begin_;
  mutable Mutex mutex_;
  std::vector<Server> servers_ ABSL_GUARDED_BY(mutex_);
  int64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rnnserve::client
