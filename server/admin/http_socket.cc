// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/telemetry/steady_now.h"

namespace rnnserve {
namespace {

constexpr size_t kMostHead = 16 << 10;
constexpr absl::Duration kFarewell = absl::Milliseconds(500);

// The end of the head in `text`: of its first empty line, whose carriage returns may be missing.
size_t EndOfHead(std::string_view text) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1)) {
    std::string_view next = text.substr(end + 1);
    if (next.starts_with('\r')) next.remove_prefix(1);
    if (next.starts_with('\n')) return end + 1;
  }
  return std::string_view::npos;
}

// Whom to ask for what listens on `host`.
std::string ReachableHost(std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

}  // namespace

HttpSocket::HttpSocket(int fd, int stop_fd, absl::Duration timeout)
    : fd_(fd), stop_fd_(stop_fd), deadline_(SteadyNow() + timeout) {}

HttpSocket::~HttpSocket() {
  if (fd_ >= 0) close(fd_);
}

HttpSocket::HttpSocket(HttpSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), stop_fd_(other.stop_fd_), deadline_(other.deadline_) {}

absl::StatusOr<HttpSocket> HttpSocket::Connect(const std::string& address, absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::UnavailableError("no address to ask");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(ReachableHost(address.substr(0, colon)).c_str(), address.c_str() + colon + 1, &hints, &list);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(list, &freeaddrinfo);
  int why = ECONNREFUSED;
  for (const addrinfo* next = found.get(); next != nullptr; next = next->ai_next) {
    const int fd = socket(next->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    HttpSocket connection(fd, -1, timeout);
    if (connect(fd, next->ai_addr, next->ai_addrlen) == 0) return connection;
    why = errno;
    if (why != EINPROGRESS) continue;
    why = ETIMEDOUT;
    if (!connection.Await(POLLOUT)) continue;
    socklen_t size = sizeof(why);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) == 0 && why == 0) return connection;
  }
  return absl::UnavailableError(std::strerror(why));
}

bool HttpSocket::Await(short events) {
  std::array<pollfd, 2> wait = {{{fd_, events, 0}, {stop_fd_, POLLIN, 0}}};
  for (;;) {
    const absl::Duration left = deadline_ - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    const int ready = poll(wait.data(), wait.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready > 0) return wait[1].revents == 0;
  }
}

size_t HttpSocket::ReadSome(char* to, size_t most) {
  while (Await(POLLIN)) {
    const ssize_t count = recv(fd_, to, most, 0);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EAGAIN && errno != EINTR) return 0;
  }
  return 0;
}

HttpSocket::Head HttpSocket::ReadHead() {
  Head head;
  std::array<char, 4096> part;
  while (const size_t count = ReadSome(part.data(), part.size())) {
    head.text.append(part.data(), count);
    head.text.erase(0, std::min(head.text.find_first_not_of("\r\n"), head.text.size()));
    if (const size_t end = EndOfHead(head.text); end != std::string::npos && end <= kMostHead) {
      head.text.resize(end);
      head.is_whole = true;
      return head;
    }
    if (head.text.size() > kMostHead) {
      head.is_too_long = true;
      return head;
    }
  }
  return head;
}

bool HttpSocket::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if ((errno != EAGAIN && errno != EINTR) || !Await(POLLOUT)) {
      return false;
    }
  }
  return true;
}

void HttpSocket::Finish() {
  shutdown(fd_, SHUT_WR);
  deadline_ = std::min(deadline_, SteadyNow() + kFarewell);
  std::array<char, 4096> ignored;
  while (ReadSome(ignored.data(), ignored.size()) > 0) {
  }
}

}  // namespace rnnserve
