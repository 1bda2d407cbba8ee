// SPDX-License-Identifier: Apache-2.0
#include "server/transport/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace rnnserve {
namespace {

constexpr int kBacklog = 4096;  // the kernel's net.core.somaxconn bounds it further

absl::Status CannotListen(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

// Of one of a name's addresses that this machine does not have, such as ::1 where there is no IPv6.
absl::Status NotHere() { return absl::NotFoundError("no such address on this machine"); }

int PortOf(int fd) {
  sockaddr_in6 bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  // The port lies at the same place for IPv4.
  return bound.sin6_family == AF_INET || bound.sin6_family == AF_INET6 ? ntohs(bound.sin6_port) : 0;
}

absl::StatusOr<ListenSocket> Bind(const std::string& address, const sockaddr* where, socklen_t size,
                                  const std::string& path, bool is_alone = true) {
  const int fd = socket(where->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno == EAFNOSUPPORT ? NotHere() : CannotListen(address, std::strerror(errno));
  const int on = 1;
  if (where->sa_family != AF_UNIX) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Of all of a machine's addresses (":50051") there are two, and that of IPv6 would take that of IPv4 along.
  if (where->sa_family == AF_INET6 && !is_alone) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(fd, where, size) != 0 || listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return error == EADDRNOTAVAIL ? NotHere() : CannotListen(address, std::strerror(error));
  }
  return ListenSocket(fd, PortOf(fd), path);
}

// A socket file without a listener is what a killed server left behind.
void RemoveIfDead(const std::string& path, const sockaddr_un& where, socklen_t size) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const bool is_dead = connect(fd, reinterpret_cast<const sockaddr*>(&where), size) != 0 && errno == ECONNREFUSED;
  close(fd);
  if (is_dead) unlink(path.c_str());
}

absl::StatusOr<std::vector<ListenSocket>> ListenUnix(const std::string& address, std::string_view name,
                                                     bool is_abstract) {
  sockaddr_un where = {};
  where.sun_family = AF_UNIX;
  const size_t offset = is_abstract ? 1 : 0;  // an abstract name begins with a zero byte
  if (name.empty() || name.size() + 1 > sizeof(where.sun_path)) {
    return CannotListen(address, absl::StrCat("expected a name of 1 to ", sizeof(where.sun_path) - 1, " bytes"));
  }
  std::memcpy(where.sun_path + offset, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const std::string path = is_abstract ? "" : std::string(name);
  if (!is_abstract) RemoveIfDead(path, where, size);
  ASSIGN_OR_RETURN(ListenSocket bound, Bind(address, reinterpret_cast<const sockaddr*>(&where), size, path));
  std::vector<ListenSocket> sockets;
  sockets.push_back(std::move(bound));
  return sockets;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return CannotListen(address, "expected host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  return AddressList(found, &freeaddrinfo);
}

}  // namespace

ListenSocket::~ListenSocket() {
  if (fd_ >= 0) close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

absl::StatusOr<std::vector<ListenSocket>> Listen(const std::string& address) {
  absl::string_view name = address;
  if (absl::ConsumePrefix(&name, "unix:")) {
    while (absl::StartsWith(name, "//")) name.remove_prefix(1);  // unix:///path
    return ListenUnix(address, {name.data(), name.size()}, false);
  }
  if (absl::ConsumePrefix(&name, "unix-abstract:")) return ListenUnix(address, {name.data(), name.size()}, true);
  ASSIGN_OR_RETURN(AddressList found, Resolve(address));
  std::vector<ListenSocket> sockets;
  for (addrinfo* next = found.get(); next != nullptr; next = next->ai_next) {
    // The port lies at the same place for IPv4.
    auto* where = reinterpret_cast<sockaddr_in6*>(next->ai_addr);
    if (!sockets.empty()) where->sin6_port = htons(static_cast<uint16_t>(sockets.front().port()));
    absl::StatusOr<ListenSocket> bound =
        Bind(address, next->ai_addr, next->ai_addrlen, "", found.get()->ai_next == nullptr);
    if (absl::IsNotFound(bound.status())) continue;
    if (!bound.ok()) return bound.status();
    sockets.push_back(*std::move(bound));
  }
  if (sockets.empty()) return CannotListen(address, NotHere().message());
  return sockets;
}

}  // namespace rnnserve
