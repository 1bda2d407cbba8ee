// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "tests/server/frontend/net/loopback.h"

// The table asks by number whether a descriptor that somebody else owns is still the connection it was (by inode), and its
// owner may close it meanwhile. ThreadSanitizer reports that one question; all else here stays under it.
extern "C" const char* __tsan_default_suppressions() { return "race:rnnserve::ConnectionTable::IsOpen\n"; }

namespace rnnserve {
namespace {

// An acceptor whose connections are kept here.
class Keeper {
 public:
  explicit Keeper(size_t max_connections) {
    absl::StatusOr<std::vector<ListenSocket>> sockets = Listen("127.0.0.1:0");
    port_ = sockets->front().port();
    Acceptor::Options options;
    options.connections.max_connections = max_connections;
    options.connections.sweep_interval = absl::ZeroDuration();
    options.accepted = accepted_;
    options.refused = refused_;
    acceptor_ = std::make_unique<Acceptor>(options, *std::move(sockets), [this](int fd) {
      const std::lock_guard lock(mutex_);
      kept_.emplace_back(fd);
      changed_.notify_all();
    });
  }

  int port() const { return port_; }
  int64_t refused() const { return refused_->value(); }
  void Stop() { acceptor_.reset(); }
  void Await(size_t connections) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return kept_.size() >= connections; });
  }
  void CloseAll() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }

 private:
  const std::shared_ptr<Counter> accepted_ = std::make_shared<Counter>(), refused_ = std::make_shared<Counter>();
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OwnedFd> kept_;  // guarded by mutex_
  std::unique_ptr<Acceptor> acceptor_;
};

TEST(Acceptor, HandsConnectionsOn) {
  Keeper keeper(10);
  const OwnedFd a = ConnectTo(keeper.port()), b = ConnectTo(keeper.port());
  keeper.Await(2);
  EXPECT_EQ(keeper.refused(), 0);
}

TEST(Acceptor, RefusesAboveTheLimitAndGoesOnBelow) {
  Keeper keeper(2);
  const OwnedFd a = ConnectTo(keeper.port()), b = ConnectTo(keeper.port());
  keeper.Await(2);
  EXPECT_TRUE(HungUp(ConnectTo(keeper.port())));
  EXPECT_EQ(keeper.refused(), 1);
  keeper.CloseAll();
  const OwnedFd c = ConnectTo(keeper.port());
  keeper.Await(1);
}

TEST(Acceptor, StopsWithConnectionsOpen) {
  Keeper keeper(10);
  const OwnedFd a = ConnectTo(keeper.port());
  keeper.Await(1);
  keeper.Stop();
  EXPECT_LT(ConnectTo(keeper.port()).get(), 0);
}

TEST(Acceptor, GoesOnAfterDescriptorsHaveRunOut) {
  Keeper keeper(1'000'000);
  const OwnedFd before = ConnectTo(keeper.port());
  keeper.Await(1);
  const OwnedFd client(socket(AF_INET, SOCK_STREAM, 0));
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit saved = limit;
  limit.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  {
    std::vector<OwnedFd> all;
    for (int fd = dup(0); fd >= 0; fd = dup(0)) all.emplace_back(fd);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(static_cast<uint16_t>(keeper.port()));
    ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
    EXPECT_TRUE(HungUp(client)) << "refused, not left waiting";
  }
  setrlimit(RLIMIT_NOFILE, &saved);
  const OwnedFd after = ConnectTo(keeper.port());
  keeper.Await(2);
}

}  // namespace
}  // namespace rnnserve
