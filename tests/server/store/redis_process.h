// SPDX-License-Identifier: Apache-2.0
// A redis-server of a test's own, on a free port, in a folder that goes with it.
//
//   RedisProcess redis;                        // ready; RNNSERVE_SKIP_WITHOUT_REDIS() first
//   redis.Ask({"GET", "key"});
//   redis.Signal(SIGSTOP);
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "server/store/redis_protocol.h"
#include "server/store/store_address.h"

namespace rnnserve {

bool HasRedis();

#define RNNSERVE_SKIP_WITHOUT_REDIS() \
  if (!HasRedis()) GTEST_SKIP() << "redis-server is not installed: run ./setup.sh --tests"

// Its cluster's bus listens 10,000 above it.
int FreePort();

class RedisProcess {
 public:
  // `arguments` as of redis-server's command line. `port` 0: a free one.
  explicit RedisProcess(std::vector<std::string> arguments = {}, int port = 0);
  ~RedisProcess();
  RedisProcess(const RedisProcess&) = delete;
  RedisProcess& operator=(const RedisProcess&) = delete;

  void Signal(int signal) const;
  // Ends it; Start brings an empty one back, at the same port.
  void Kill();
  void Start();

  StoreHost host() const { return {"127.0.0.1", port_}; }
  std::string url() const { return "redis://" + HostText(host()); }
  const std::filesystem::path& folder() const { return folder_; }

  // The answer to a command, over a connection of its own.
  RedisReply Ask(const std::vector<std::string>& words) const;
  // Of a string or a status; of an error "ERR ...", of an integer its digits, of nil "(nil)".
  std::string AskText(const std::vector<std::string>& words) const;

 private:
  const std::vector<std::string> arguments_;
  const int port_;
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

}  // namespace rnnserve
