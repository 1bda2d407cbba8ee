// SPDX-License-Identifier: Apache-2.0
#include "server/transport/pending_connections.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

namespace rnnserve {
namespace {

constexpr int kEventsAtOnce = 64;

// Resets the connection without a GOAWAY, and leaves nothing of it in the kernel.
void Reset(int fd) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(fd);
}

}  // namespace

PendingConnections::PendingConnections(Options options, std::shared_ptr<Counter> dismissed,
                                       std::shared_ptr<Counter> refused)
    : options_(options),
      dismissed_(std::move(dismissed)),
      refused_(std::move(refused)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

PendingConnections::~PendingConnections() {
  Clear();
  if (epoll_ >= 0) close(epoll_);
}

void PendingConnections::Add(int fd, absl::Time now) {
  const auto connection = silent_.insert(silent_.end(), {fd, now, &silent_});
  all_[fd] = connection;
  // Edge-triggered: the bytes stay in the kernel, and must not wake the thread again and again.
  epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.fd = fd}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return Close(connection, *refused_);
  Inspect(connection);
}

void PendingConnections::Inspect(Connections::iterator connection) {
  if (connection->among == &calling_) return;  // no more is to be learned by looking
  std::array<uint8_t, kGreetingHeadBytes> head;
  const ssize_t got = recv(connection->fd, head.data(), head.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  int come = 0;
  if (got <= 0 || ioctl(connection->fd, FIONREAD, &come) != 0) return Close(connection, *dismissed_);
  const auto known = static_cast<size_t>(got);
  const Greeting said = options_.parse({head.data(), known}, static_cast<size_t>(come));
  if (said == Greeting::kNotYet) return;
  if (said == Greeting::kWrong) return Close(connection, *dismissed_);
  const bool is_new = connection->among == &silent_;
  if (is_new && !Answer(connection->fd)) return Close(connection, *dismissed_);
  if (said == Greeting::kCalls) return Move(connection, calling_);
  const bool asks = said == Greeting::kElse && !connection->has_asked;
  connection->has_asked |= asks;
  if (is_new || asks) Move(connection, greeted_);
}

bool PendingConnections::Answer(int fd) const {
  if (options_.answer.empty()) return true;
  // Nothing has been sent before, so there is room for all of it.
  return send(fd, options_.answer.data(), options_.answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(options_.answer.size());
}

void PendingConnections::Inspect(absl::Time now) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = epoll_wait(epoll_, events.data(), kEventsAtOnce, 0);
  for (int k = 0; k < count; ++k) {
    const epoll_event& event = events[static_cast<size_t>(k)];
    const auto found = all_.find(event.data.fd);
    if (found == all_.end()) continue;
    // A peer that sends no more does not call either.
    if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
      Close(found->second, *dismissed_);
    } else {
      Inspect(found->second);
    }
  }
  while (!silent_.empty() && now - silent_.front().since >= options_.patience) Close(silent_.begin(), *dismissed_);
}

int PendingConnections::Take(Connections& from) {
  if (from.empty()) return -1;
  const int fd = Release(std::prev(from.end()));
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  return fd;
}

bool PendingConnections::Drop(absl::Time now) {
  const bool is_late = !silent_.empty() && now - silent_.front().since >= options_.grace;
  for (Connections* const from : {is_late ? &silent_ : &greeted_, &greeted_, &calling_, &silent_}) {
    if (from->empty()) continue;
    Close(from->begin(), *refused_);
    return true;
  }
  return false;
}

void PendingConnections::Clear() {
  for (const auto& [fd, connection] : all_) close(fd);
  all_.clear();
  for (Connections* const connections : {&silent_, &greeted_, &calling_}) connections->clear();
}

absl::Time PendingConnections::next_end() const {
  return silent_.empty() ? absl::InfiniteFuture() : silent_.front().since + options_.patience;
}

void PendingConnections::Move(Connections::iterator connection, Connections& to) {
  to.splice(to.end(), *connection->among, connection);
  connection->among = &to;
}

int PendingConnections::Release(Connections::iterator connection) {
  const int fd = connection->fd;
  all_.erase(fd);
  connection->among->erase(connection);
  return fd;
}

void PendingConnections::Close(Connections::iterator connection, Counter& why) {
  why.Add();
  Reset(Release(connection));  // leaves the epoll set with it
}

}  // namespace rnnserve
