// SPDX-License-Identifier: Apache-2.0
#include "base/joined_sends.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace rnnserve {
namespace {

// Larger messages gain nothing and need not wait.
constexpr size_t kMostBytes = 16 << 10;

thread_local JoinedSends* current = nullptr;

size_t BytesOf(const msghdr& message) {
  size_t bytes = 0;
  for (size_t k = 0; k < message.msg_iovlen; ++k) bytes += message.msg_iov[k].iov_len;
  return bytes;
}

}  // namespace

JoinedSends::JoinedSends() : outer_(current) {
  if (outer_ == nullptr) current = this;
}

JoinedSends::~JoinedSends() {
  if (outer_ != nullptr) return;
  current = nullptr;
  Flush();
  if (end_ != nullptr) end_(of_);
}

void JoinedSends::AtEnd(void (*end)(void*), void* of) {
  if (current == nullptr) return end(of);
  if (current->end_ != nullptr && current->of_ != of) current->end_(current->of_);
  current->end_ = end;
  current->of_ = of;
}

void JoinedSends::LetGo() {
  if (current != nullptr) current->Flush();
}

ssize_t JoinedSends::Send(int fd, const msghdr* message, int flags) {
  const bool joins = current != nullptr && BytesOf(*message) <= kMostBytes;
  // The next one may be as large, and is written first: what waits would wait for that, too.
  if (current != nullptr && !joins) current->Flush();
  const ssize_t sent = syscall(SYS_sendmsg, fd, message, joins ? flags | MSG_MORE : flags);
  if (joins && sent > 0) current->Keep(fd);
  return sent;
}

void JoinedSends::Keep(int fd) {
  const auto end = waiting_.begin() + size_;
  if (std::find(waiting_.begin(), end, fd) != end) return;
  if (size_ == waiting_.size()) Flush();
  waiting_[size_++] = fd;
}

// A descriptor may be closed by now, or be another socket's: gRPC sets this option itself, so nothing changes there.
void JoinedSends::Flush() {
  const int on = 1;
  for (size_t k = 0; k < size_; ++k) setsockopt(waiting_[k], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // tcp(7)
  size_ = 0;
}

}  // namespace rnnserve
