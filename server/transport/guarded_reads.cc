// SPDX-License-Identifier: Apache-2.0
#include "server/transport/guarded_reads.h"

#include <dlfcn.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/steady_now.h"
#include "server/telemetry/log.h"
#include "server/telemetry/log_limit.h"
#include "server/transport/frame_guard.h"

namespace rnnserve {
namespace {

// Bytes that were written to a connection, and those of them that have left; nothing where the kernel does not say.
struct Written {
  uint64_t all;
  uint64_t left;
};
std::optional<Written> WrittenTo(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  constexpr size_t kNeeded = offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(info.tcpi_bytes_retrans);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < kNeeded) return std::nullopt;
  const uint64_t left = info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  return Written{left + info.tcpi_notsent_bytes, left};
}

struct GuardedSocket {
  GuardedSocket(int fd, ino_t of, int64_t max_streams)
      : inode(of), written_before(WrittenTo(fd).value_or(Written{}).all), guard(SteadyNow(), max_streams, true) {}
  const ino_t inode;
  const uint64_t written_before;  // before gRPC had the connection
  FrameGuard guard;
};

// By descriptor. An entry stays until the descriptor's next connection: gRPC does not tell when it closes one.
constexpr size_t kDescriptors = 1 << 20;
std::array<std::atomic<GuardedSocket*>, kDescriptors> sockets;

std::atomic<int64_t> abusive = 0;

ino_t InodeOf(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

// In gRPC's form of a call's peer. Empty: not known.
std::string PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || getpeername(fd, any, &size) != 0) return "";
  if (address.ss_family == AF_UNIX) return "unix:";
  if (getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) !=
      0) {
    return "";
  }
  return address.ss_family == AF_INET6 ? absl::StrCat("ipv6:[", host.data(), "]:", port.data())
                                       : absl::StrCat("ipv4:", host.data(), ":", port.data());
}

// `fd`: -1 if it is not known.
void LogClosed(const char* why, int fd) {
  abusive.fetch_add(1, std::memory_order_relaxed);
  static LogLimit limit;
  const auto skipped = limit.Allow(SteadyNow());
  if (!skipped) return;
  const std::string more = *skipped == 0 ? "" : absl::StrCat(*skipped);
  LogWarning(absl::StrCat("closed an abusive connection: ", why), {{"peer", PeerOf(fd)}, {"suppressed_before", more}});
}

// What `size` bytes that were read into `message` are; null: nothing to say.
const char* Inspect(int fd, GuardedSocket& guarded, const msghdr& message, size_t size) {
  const absl::Time now = SteadyNow();
  FrameGuard& guard = guarded.guard;
  // What gRPC writes first are its settings.
  const auto settings_sent = [&] {
    const std::optional<Written> written = WrittenTo(fd);
    return !written || written->left > guarded.written_before;
  };
  const bool may_acknowledge = guard.acknowledged() || settings_sent();
  const char* why = nullptr;
  for (size_t k = 0; k < message.msg_iovlen && size > 0 && why == nullptr; ++k) {
    const size_t bytes = std::min(size, message.msg_iov[k].iov_len);
    why = guard.Inspect({static_cast<uint8_t*>(message.msg_iov[k].iov_base), bytes}, now, may_acknowledge);
    size -= bytes;
  }
  guard.EndRead();
  return why;
}

// Whether the connection may go on after `size` bytes of it.
bool MayGoOn(int fd, const msghdr& message, size_t size) {
  if (fd < 0 || static_cast<size_t>(fd) >= kDescriptors) return true;
  std::atomic<GuardedSocket*>& place = sockets[static_cast<size_t>(fd)];
  GuardedSocket* const guarded = place.load(std::memory_order_acquire);
  if (guarded == nullptr) return true;
  // The descriptor may be another socket's now, which has no guard.
  const auto is_other = [&] { return InodeOf(fd) != guarded->inode; };
  if (guarded->guard.hides_acknowledgement() && is_other()) return true;
  const char* const why = Inspect(fd, *guarded, message, size);
  if (why == nullptr || is_other()) return true;
  LogClosed(why, fd);
  return false;
}

// OpenSSL does not know which socket its bytes came from: gRPC hands it what it has just read, on the same thread.
// Where every look-up found the same socket, that is the peer's; else the log names no peer.
thread_local int last_read = -1;

struct GuardedSession {
  FrameGuard guard{SteadyNow()};
  int fd = last_read;

  void SawRead() {
    if (fd != last_read) fd = -1;
  }
};

void FreeGuard(void*, void* guard, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<GuardedSession*>(guard); }

GuardedSession& GuardOf(SSL* ssl) {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, &FreeGuard);
  auto* guard = static_cast<GuardedSession*>(SSL_get_ex_data(ssl, index));
  if (guard == nullptr) {
    guard = new GuardedSession;
    SSL_set_ex_data(ssl, index, guard);
  }
  return *guard;
}

}  // namespace

void CountAbusive(Metrics& metrics) {
  metrics.CounterFunction("rnnserve_abusive_connections_total", "Connections closed for the frames they sent.",
                          [] { return static_cast<double>(abusive.load(std::memory_order_relaxed)); });
}

void GuardReads(int fd, int64_t max_streams) {
  if (fd < 0 || static_cast<size_t>(fd) >= kDescriptors) return;
  auto* const guarded = new GuardedSocket(fd, InodeOf(fd), max_streams);
  delete sockets[static_cast<size_t>(fd)].exchange(guarded, std::memory_order_acq_rel);
}

}  // namespace rnnserve

extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_recvmsg, fd, message, flags);
  if (size <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return size;
  rnnserve::last_read = fd;
  if (rnnserve::MayGoOn(fd, *message, static_cast<size_t>(size))) return size;
  shutdown(fd, SHUT_RDWR);
  return 0;  // as if the peer had gone
}

extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* buffer, int size) {
  using Read = int (*)(SSL*, void*, int);
  static const auto read = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "SSL_read"));
  const int got = read(ssl, buffer, size);
  if (got <= 0 || SSL_is_server(ssl) == 0) return got;
  const std::span<uint8_t> bytes(static_cast<uint8_t*>(buffer), static_cast<size_t>(got));
  rnnserve::GuardedSession& session = rnnserve::GuardOf(ssl);
  session.SawRead();
  const char* const why = session.guard.Inspect(bytes, rnnserve::SteadyNow());
  if (why == nullptr) return got;
  rnnserve::LogClosed(why, session.fd);
  ERR_raise(ERR_LIB_SSL, ERR_R_OPERATION_FAIL);  // gRPC asks SSL_get_error, which looks here, and closes
  return -1;
}
