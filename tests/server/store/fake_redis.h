// SPDX-License-Identifier: Apache-2.0
// A server that answers each command with whatever bytes a test says.
//
//   FakeRedis fake([](const std::vector<std::string>& words) { return words[0] == "PING" ? "+PONG\r\n" :
//   "-LOADING\r\n"; }); MakeStore(fake.url());
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "server/store/store_address.h"

namespace rnnserve {

class FakeRedis {
 public:
  // Called on the fake's thread. An answer of kHangUp ends the connection.
  using Answer = std::function<std::string(const std::vector<std::string>& words)>;
  static constexpr const char* kHangUp = "hang up";

  // `greeting` is sent on each new connection.
  explicit FakeRedis(Answer answer, std::string greeting = {});
  ~FakeRedis();

  StoreHost host() const { return {"127.0.0.1", port_}; }
  std::string url() const { return "redis://" + HostText(host()); }
  int connections() const { return connections_; }

 private:
  void Run();

  const Answer answer_;
  const std::string greeting_;
  int listener_ = -1;
  int end_ = -1;  // an eventfd
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace rnnserve
