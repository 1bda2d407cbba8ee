// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/streams/cut_wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace rnnserve {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[noreturn]] void Give(const char* what) {
  std::perror(what);
  std::abort();
}

void Swift(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

CutWire::CutWire(int server_port) : server_port_(server_port), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, any, size) != 0 || listen(listener_, 64) != 0) Give("listen");
  getsockname(listener_, any, &size);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

CutWire::~CutWire() {
  shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  close(listener_);
  Cut();
  for (Connection& connection : connections_) {
    connection.up.join();
    connection.down.join();
    close(connection.caller);
    close(connection.server);
  }
}

void CutWire::Accept() {
  for (;;) {
    const int caller = accept(listener_, nullptr, nullptr);
    if (caller < 0) return;
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(server_port_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) Give("connect");
    Swift(caller);
    Swift(server);
    const std::lock_guard lock(mutex_);
    Connection& connection = connections_.emplace_back(caller, server);
    connection.up = std::thread([this, &connection, caller, server] { Copy(connection, caller, server); });
    connection.down = std::thread([this, &connection, caller, server] { Copy(connection, server, caller); });
  }
}

// What comes over a frozen connection, its end among it, goes nowhere.
void CutWire::Copy(Connection& connection, int from, int to) {
  char bytes[1 << 14];
  for (;;) {
    const ssize_t came = recv(from, bytes, sizeof bytes, 0);
    if (connection.frozen) {
      if (came <= 0) return;
      continue;
    }
    if (came <= 0) break;
    for (ssize_t sent = 0; sent < came;) {
      const ssize_t went = send(to, bytes + sent, static_cast<size_t>(came - sent), MSG_NOSIGNAL);
      if (went <= 0) break;
      sent += went;
    }
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

void CutWire::Cut() {
  const std::lock_guard lock(mutex_);
  for (Connection& connection : connections_) {
    shutdown(connection.caller, SHUT_RDWR);
    shutdown(connection.server, SHUT_RDWR);
  }
}

void CutWire::Freeze() {
  const std::lock_guard lock(mutex_);
  for (Connection& connection : connections_) connection.frozen = true;
}

}  // namespace rnnserve
