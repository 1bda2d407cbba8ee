// SPDX-License-Identifier: Apache-2.0
#include "server/transport/acceptor.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/steady_now.h"

namespace rnnserve {
namespace {

// The pace at which connections come in, after a few at once, and slower while each needs another one to be closed: the
// two take 45 to 79 us of a CPU, nearly all of it in the kernel. A flood waits in the kernel's queue, of 4,096 places
// by default, and a connection behind it is still served within 5 s.
constexpr absl::Duration kPerAccept = absl::Microseconds(500);
constexpr absl::Duration kPerClose = absl::Microseconds(250);
constexpr double kAcceptsAtOnce = 16;
// A connection that is later than this has let other threads go first often enough.
constexpr absl::Duration kMayBeLate = absl::Milliseconds(2);
// Between two turns of connections that have greeted and not called, or are in a handshake (HandshakeWindow).
constexpr absl::Duration kTurn = absl::Milliseconds(20);
// The same while many are pending. Each connection delays calls by up to a transport's cost: of a caller with 2,000
// calls a second, fewer than one in a hundred. A handshake may yet bring a call, so those turns are shorter.
constexpr absl::Duration kCrowdedTurn = absl::Milliseconds(60);
constexpr absl::Duration kCrowdedIdleTurn = absl::Milliseconds(200);
// One connection in eight may be pending in any case.
constexpr size_t kPendingPart = 8;
// Connections that are given up at a time: one in 64.
constexpr size_t kPartGivenUp = 64;
// Between two looks while there is neither a descriptor nor one to give up.
constexpr int kPauseMs = 10;

// A wake-up of this thread interrupts no other thread; its share of the CPU stays.
void YieldToOthers() {
  const sched_param none = {};
  if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
}

int WaitUntil(pollfd* ready, nfds_t count, absl::Time until) {
  if (until == absl::InfiniteFuture()) return poll(ready, count, -1);
  const timespec left = absl::ToTimespec(std::max(until - SteadyNow(), absl::ZeroDuration()));
  return ppoll(ready, count, &left, nullptr);
}

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(Options options, std::vector<ListenSocket> sockets, Handler handler)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      handler_(std::move(handler)),
      pending_(options_.pending, options_.dismissed, options_.refused),
      table_(options_.connections),
      accepts_(kPerAccept, kAcceptsAtOnce),
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

void Acceptor::CloseConnections(absl::Duration longest) {
  Stop();
  pending_.Clear();
  table_.CloseConnections();
  const absl::Time end = SteadyNow() + longest;
  while (table_.Count() > 0 && SteadyNow() < end) poll(nullptr, 0, kPauseMs);
}

Acceptor::~Acceptor() {
  Stop();
  close(stop_event_);
  if (reserve_ >= 0) close(reserve_);
}

void Acceptor::Loop() {
  YieldToOthers();
  std::vector<pollfd> ready = {{stop_event_, POLLIN, 0}, {pending_.fd(), POLLIN, 0}};
  for (const ListenSocket& socket : sockets_) ready.push_back({socket.fd(), POLLIN, 0});
  size_t turn = 0;  // of the sockets
  absl::Time wake = absl::InfiniteFuture();
  for (;;) {
    // While it is too early to accept, the sockets are not polled.
    const absl::Time next_accept = accepts_.next();
    const bool may_accept = next_accept <= SteadyNow();
    const nfds_t count = may_accept ? ready.size() : 2;
    if (WaitUntil(ready.data(), count, may_accept ? wake : std::min(wake, next_accept)) < 0) continue;
    if (ready[0].revents != 0) return;
    const absl::Time now = SteadyNow();
    pending_.Inspect(now);
    for (size_t k = 0; may_accept && k < sockets_.size(); ++k) {
      turn = (turn + 1) % sockets_.size();
      if (ready[turn + 2].revents != 0 && Accept(sockets_[turn], now)) {
        accepts_.Take(now);
        break;
      }
    }
    wake = std::min({HandOverCallers(now), HandOverIdle(now), pending_.next_end()});
  }
}

absl::Time Acceptor::HandOverCallers(absl::Time now) {
  if (!pending_.has_callers()) return absl::InfiniteFuture();
  if (!options_.limit_handshakes) {
    while (pending_.has_callers()) HandOver(pending_.TakeCaller(), now);
    return absl::InfiniteFuture();
  }
  if (now < next_handshake_) return next_handshake_;
  const auto [waiting, proved] = table_.InHandshake(HandshakeWindow::kMost, now);
  for (size_t places = window_.Places(waiting, proved); places > 0 && pending_.has_callers(); --places) {
    HandOver(pending_.TakeCaller(), now);
  }
  next_handshake_ = now + (IsCrowded() ? kCrowdedTurn : kTurn);
  return pending_.has_callers() ? next_handshake_ : absl::InfiniteFuture();
}

absl::Time Acceptor::HandOverIdle(absl::Time now) {
  if (!pending_.has_greeted()) return absl::InfiniteFuture();
  if (now < next_idle_) return next_idle_;
  HandOver(pending_.TakeGreeted(), now);
  next_idle_ = now + (IsCrowded() ? kCrowdedIdleTurn : kTurn);
  return pending_.has_greeted() ? next_idle_ : absl::InfiniteFuture();
}

bool Acceptor::IsCrowded() const { return pending_.size() > options_.max_connections / kPendingPart; }

void Acceptor::HandOver(int fd, absl::Time now) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto timeout_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(options_.peer_timeout));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
  table_.Add(fd, now);
  options_.accepted->Add();
  handler_(fd);
}

bool Acceptor::Accept(const ListenSocket& socket, absl::Time now) {
  const int fd = accept4(socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return is_short && Refuse(socket, now);  // else the peer has gone already
  }
  LowerPriority();
  const bool has_room = MakeRoom(now);
  LowerPriority();
  if (has_room) {
    pending_.Add(fd, now);
  } else {
    options_.refused->Add();
    close(fd);
  }
  return true;
}

void Acceptor::LowerPriority() const {
  if (SteadyNow() - accepts_.next() < kMayBeLate) sched_yield();
}

bool Acceptor::MakeRoom(absl::Time now) {
  const auto is_full = [this] { return pending_.size() + table_.size() >= options_.max_connections; };
  if (!is_full()) return true;
  table_.Sweep(now);
  if (!is_full()) return true;
  accepts_.Delay(now, kPerClose);
  if (!IsCrowded()) {
    table_.GiveUp(std::max<size_t>(options_.max_connections / kPartGivenUp, 1), now);
  }
  return pending_.Drop(now);
}

bool Acceptor::Refuse(const ListenSocket& socket, absl::Time now) {
  accepts_.Delay(now, kPerClose);
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
