// SPDX-License-Identifier: Apache-2.0
#include "server/transport/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/server/transport/loopback.h"

// The table asks by number whether a descriptor that another object owns is still the connection it was (by inode), and
// its owner may close it meanwhile. ThreadSanitizer reports that one question; all else here stays under it.
extern "C" const char* __tsan_default_suppressions() { return "race:rnnserve::ConnectionTable::IsOpen\n"; }

namespace rnnserve {
namespace {

constexpr std::string_view kGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr std::string_view kCall("\0\0\1\1\4\0\0\0\1\x82", 10);
const std::string kGreetingAndCall = std::string(kGreeting) + std::string(kCall);
constexpr std::string_view kHello("\x16\3\1\0\4they", 9), kAnotherHello("\x16\3\1\0\2me", 7);

void Say(const OwnedFd& client, std::string_view bytes) {
  EXPECT_EQ(send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// A connection that greets at once; it may be hung up on.
OwnedFd Greet(int port, std::string_view greeting = kGreeting) {
  OwnedFd client = ConnectTo(port);
  send(client.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
  return client;
}

// An acceptor whose connections are kept here.
class Keeper {
 public:
  explicit Keeper(size_t max_connections, bool limit_handshakes = false) {
    absl::StatusOr<std::vector<ListenSocket>> sockets = Listen("127.0.0.1:0");
    port_ = sockets->front().port();
    Acceptor::Options options;
    options.max_connections = max_connections;
    options.connections.sweep_interval = absl::ZeroDuration();
    options.pending.answer = "welcome";
    if (limit_handshakes) options.pending.parse = &ParseTlsGreeting;
    options.limit_handshakes = limit_handshakes;
    options.accepted = accepted_;
    options.refused = refused_;
    options.dismissed = dismissed_;
    acceptor_ = std::make_unique<Acceptor>(options, *std::move(sockets), [this](int fd) {
      const std::lock_guard lock(mutex_);
      kept_.emplace_back(fd);
      changed_.notify_all();
    });
  }

  int port() const { return port_; }
  int64_t accepted() const { return accepted_->value(); }
  int64_t refused() const { return refused_->value(); }
  int64_t dismissed() const { return dismissed_->value(); }
  void Stop() { acceptor_.reset(); }
  void Await(size_t connections) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return kept_.size() >= connections; });
  }
  // Until a connection is handed over that has sent this.
  void AwaitWord(std::string_view word) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      std::string said(word.size(), ' ');
      for (const OwnedFd& fd : kept_) {
        if (recv(fd.get(), said.data(), said.size(), MSG_PEEK) == static_cast<ssize_t>(said.size()) && said == word) {
          return true;
        }
      }
      return false;
    });
  }
  void CloseAll() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }

 private:
  const std::shared_ptr<Counter> accepted_ = std::make_shared<Counter>(), refused_ = std::make_shared<Counter>(),
                                 dismissed_ = std::make_shared<Counter>();
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OwnedFd> kept_;  // guarded by mutex_
  std::unique_ptr<Acceptor> acceptor_;
};

TEST(Acceptor, HandsConnectionsOn) {
  Keeper keeper(10);
  const OwnedFd a = Greet(keeper.port()), b = Greet(keeper.port());
  keeper.Await(2);
  EXPECT_EQ(keeper.refused(), 0);
}

TEST(Acceptor, RefusesAboveTheLimitAndGoesOnBelow) {
  Keeper keeper(2);
  const OwnedFd a = Greet(keeper.port()), b = Greet(keeper.port());
  keeper.Await(2);
  EXPECT_TRUE(HungUp(ConnectTo(keeper.port())));
  EXPECT_EQ(keeper.refused(), 1);
  keeper.CloseAll();
  const OwnedFd c = Greet(keeper.port());
  keeper.Await(1);
}

TEST(Acceptor, HandsOnOnlyThoseWhoHaveGreeted) {
  Keeper keeper(10);
  const OwnedFd silent = ConnectTo(keeper.port()), slow = ConnectTo(keeper.port());
  Say(slow, kGreeting.substr(0, 32));
  const OwnedFd prompt = Greet(keeper.port());
  keeper.Await(1);
  Say(slow, kGreeting.substr(32));
  keeper.Await(2);
  EXPECT_EQ(keeper.accepted(), 2);
  EXPECT_EQ(keeper.refused() + keeper.dismissed(), 0);
}

TEST(Acceptor, DismissesWhoeverSpeaksAnotherLanguage) {
  Keeper keeper(10);
  const OwnedFd client = ConnectTo(keeper.port());
  Say(client, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(HungUp(client));
  EXPECT_EQ(keeper.dismissed(), 1);
}

TEST(Acceptor, TheSilentMakeRoomForThoseWhoGreet) {
  Keeper keeper(8);
  std::vector<OwnedFd> silent;
  for (int k = 0; k < 20; ++k) silent.push_back(ConnectTo(keeper.port()));
  const OwnedFd newcomer = Greet(keeper.port());
  keeper.Await(1);
  EXPECT_TRUE(HungUp(silent.front()));
  EXPECT_GE(keeper.refused(), 12);
}

// Connections that greet and do not call wait; those that call do not.
TEST(Acceptor, WhoCallsDoesNotWaitBehindAFlood) {
  constexpr int kFlood = 500;
  Keeper keeper(1000);
  std::vector<OwnedFd> flood;
  for (int k = 0; k < kFlood; ++k) flood.push_back(Greet(keeper.port()));
  const OwnedFd newcomer = Greet(keeper.port());
  std::string welcome(7, ' ');
  ASSERT_EQ(recv(newcomer.get(), welcome.data(), welcome.size(), MSG_WAITALL), 7);
  EXPECT_EQ(welcome, "welcome");
  Say(newcomer, kCall);
  keeper.AwaitWord(kGreetingAndCall);
  EXPECT_LT(keeper.accepted(), kFlood);
}

TEST(Acceptor, ManyWhoCallAtOnce) {
  Keeper keeper(1000);
  std::vector<OwnedFd> clients;
  for (int k = 0; k < 100; ++k) clients.push_back(Greet(keeper.port(), kGreetingAndCall));
  keeper.Await(100);
}

// Of TLS the acceptor does not see which call: it hands them over slowly, and one that comes last is not behind them
// all.
TEST(Acceptor, WhoBeginsLastDoesNotWaitBehindAFloodOfTls) {
  constexpr int kFlood = 500;
  Keeper keeper(1000, /*limit_handshakes=*/true);
  std::vector<OwnedFd> flood;
  for (int k = 0; k < kFlood; ++k) flood.push_back(Greet(keeper.port(), kHello));
  const OwnedFd newcomer = Greet(keeper.port(), kAnotherHello);
  keeper.AwaitWord(kAnotherHello);
  EXPECT_LT(keeper.accepted(), kFlood);
}

TEST(Acceptor, StopsWithConnectionsOpen) {
  Keeper keeper(10);
  const OwnedFd a = Greet(keeper.port()), silent = ConnectTo(keeper.port());
  keeper.Await(1);
  keeper.Stop();
  EXPECT_TRUE(HungUp(silent));
  EXPECT_LT(ConnectTo(keeper.port()).get(), 0);
}

TEST(Acceptor, GoesOnAfterDescriptorsHaveRunOut) {
  Keeper keeper(1'000'000);
  const OwnedFd before = Greet(keeper.port());
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
  const OwnedFd after = Greet(keeper.port());
  keeper.Await(2);
}

}  // namespace
}  // namespace rnnserve
