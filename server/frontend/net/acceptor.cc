// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/acceptor.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "server/telemetry/steady_now.h"

namespace rnnserve {
namespace {

// Accepted from one socket before others have their turn.
constexpr int kInARow = 4;
// After as many: whoever floods the server with connections waits in the kernel's queue, and does not take the CPU of
// those who call. 4,000 connections a second come in.
constexpr int kBreathMs = 1;
// Between two looks when there is neither a descriptor nor one to give up.
constexpr int kPauseMs = 10;

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(Options options, std::vector<ListenSocket> sockets, Handler handler)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      handler_(std::move(handler)),
      table_(options_.connections),
      stop_event_(eventfd(0, EFD_CLOEXEC)),
      reserve_(OpenReserve()),
      thread_([this] { Loop(); }) {}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (write(stop_event_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void Acceptor::HangUp(absl::Duration longest) {
  Stop();
  table_.HangUp();
  const absl::Time end = SteadyNow() + longest;
  while (table_.Count() > 0 && SteadyNow() < end) poll(nullptr, 0, kPauseMs);
}

Acceptor::~Acceptor() {
  Stop();
  close(stop_event_);
  if (reserve_ >= 0) close(reserve_);
}

void Acceptor::Loop() {
  std::vector<pollfd> ready = {{stop_event_, POLLIN, 0}};
  for (const ListenSocket& socket : sockets_) ready.push_back({socket.fd(), POLLIN, 0});
  for (;;) {
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    if (ready[0].revents != 0) return;
    bool is_flood = false;
    for (size_t k = 0; k < sockets_.size(); ++k) {
      if (ready[k + 1].revents != 0) is_flood |= Accept(sockets_[k]);
    }
    if (is_flood) poll(ready.data(), 1, kBreathMs);
  }
}

bool Acceptor::Accept(const ListenSocket& socket) {
  for (int k = 0; k < kInARow; ++k) {
    const int fd = accept4(socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      Take(fd);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (!Refuse(socket)) return false;
    }
    // Else the peer has gone already.
  }
  return true;
}

void Acceptor::Take(int fd) {
  const absl::Time now = SteadyNow();
  if (!table_.MakeRoom(now)) {
    options_.refused->Add();
    close(fd);
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto timeout_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(options_.peer_timeout));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
  table_.Add(fd, now);
  options_.accepted->Add();
  handler_(fd);
}

bool Acceptor::Refuse(const ListenSocket& socket) {
  if (reserve_ >= 0) close(std::exchange(reserve_, -1));
  const int fd = accept4(socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    options_.refused->Add();
    close(fd);
  }
  reserve_ = OpenReserve();
  if (fd >= 0) return true;
  pollfd stop = {stop_event_, POLLIN, 0};
  poll(&stop, 1, kPauseMs);
  return false;
}

}  // namespace rnnserve
