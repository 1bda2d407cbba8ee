// SPDX-License-Identifier: Apache-2.0
#include "server/store/redis_connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "server/files/plain_file.h"
#include "server/store/redis_error.h"

namespace rnnserve {
namespace {

constexpr size_t kMostPasswordBytes = 4096;
constexpr size_t kReadBytes = size_t{64} << 10;
// What was sent is cut off the front of the buffer once it is this much.
constexpr size_t kCompactBytes = size_t{256} << 10;

absl::Status SystemError(std::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(View(what), ": ", strerror(error)));  // NOLINT: glibc's is thread-safe
}

// A peer that is gone without a word is noticed by the kernel, too, where nothing waits for an answer.
void SetOptions(int socket) {
  const auto set = [socket](int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

}  // namespace

std::shared_ptr<RedisConnection> RedisConnection::Start(std::shared_ptr<EventLoop> loop, ConnectionOptions options,
                                                        StoreHost host, Observer* observer) {
  std::shared_ptr<RedisConnection> made(
      new RedisConnection(std::move(loop), std::move(options), std::move(host), observer));
  made->Begin();
  return made;
}

RedisConnection::RedisConnection(std::shared_ptr<EventLoop> loop, ConnectionOptions options, StoreHost host,
                                 Observer* observer)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      host_(std::move(host)),
      observer_(observer),
      reader_(options_.most_reply_bytes) {}

RedisConnection::~RedisConnection() { CloseSocket(); }

void RedisConnection::Begin() {
  timer_ = loop_->At(loop_->Now() + options_.connect_timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Close(absl::UnavailableError("the connection was not made in time"));
  });
  Resolve(loop_, host_, [weak = weak_from_this()](Addresses found) {
    const auto self = weak.lock();
    if (self == nullptr || self->state_ == State::kClosed) return;
    if (!found.ok()) return self->Close(found.status());
    self->addresses_ = *std::move(found);
    self->ConnectNext(absl::UnavailableError("its name has no address"));
  });
}

void RedisConnection::ConnectNext(absl::Status last) {
  CloseSocket();
  while (next_address_ < addresses_.size()) {
    last = Connect(addresses_[next_address_++]);
    if (last.ok()) return;
    CloseSocket();
  }
  Close(std::move(last));
}

absl::Status RedisConnection::Connect(const SocketAddress& address) {
  socket_ = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return SystemError("no socket", errno);
  SetOptions(socket_);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0 && errno != EINPROGRESS) {
    return SystemError("the connection failed", errno);
  }
  watch_ = loop_->Watch(socket_, [weak = weak_from_this()](uint32_t events) {
    if (const auto self = weak.lock()) self->OnSocket(events);
  });
  return absl::OkStatus();
}

void RedisConnection::OnSocket(uint32_t events) {
  if (state_ == State::kConnecting) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return ConnectNext(SystemError("the connection failed", error));
    if ((events & (EPOLLOUT | EPOLLIN)) == 0) return;
    if (options_.address.tls) {
      BeginTls();
    } else {
      Login();
    }
  }
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) Read();
  if (state_ != State::kClosed && (events & EPOLLOUT) != 0) Flush();
}

void RedisConnection::BeginTls() {
  state_ = State::kTls;
  absl::StatusOr<std::unique_ptr<TlsSession>> tls = TlsSession::Make(options_.address, host_.host);
  if (!tls.ok()) return Close(absl::UnavailableError(tls.status().message()));
  tls_ = *std::move(tls);
  if (absl::Status begun = tls_->Begin(out_); !begun.ok()) return Close(std::move(begun));
  FlushSoon();
}

void RedisConnection::OnTlsBytes(std::string_view bytes) {
  std::string plain;
  const absl::Status received = tls_->Receive(bytes, plain, out_);
  if (unsent() > 0) FlushSoon();
  if (state_ == State::kTls && tls_->is_open()) Login();
  if (!plain.empty()) ReadReplies(plain);
  if (!received.ok()) Close(received);
}

void RedisConnection::Login() {
  state_ = State::kLogin;
  const StoreAddress& address = options_.address;
  std::vector<std::string> names;
  const auto send = [&](std::span<const std::string_view> words) {
    Send(words);
    names.emplace_back(words.front());
  };
  if (!address.password_file.empty()) {
    const absl::StatusOr<std::string> file = ReadPlainFile(address.password_file, kMostPasswordBytes);
    if (!file.ok()) return Close(absl::UnauthenticatedError(file.status().message()));
    const absl::string_view password = absl::StripTrailingAsciiWhitespace(*file);
    std::vector<std::string_view> words = {"AUTH"};
    if (!address.user.empty()) words.push_back(address.user);
    words.emplace_back(password.data(), password.size());
    send(words);
  }
  const std::string db = absl::StrCat(address.db);
  if (address.db != 0) send(std::array<std::string_view, 2>{"SELECT", db});
  if (options_.must_be_master) {
    send(std::array<std::string_view, 1>{"ROLE"});
  } else {
    send(std::array<std::string_view, 1>{"PING"});
  }
  login_.assign(names.rbegin(), names.rend());
}

void RedisConnection::OnLoginReply(const redisReply& reply) {
  const std::string command = std::move(login_.back());
  login_.pop_back();
  if (reply.type == REDIS_REPLY_ERROR) {
    const RedisError error = ReadRedisError(ReplyText(reply));
    const std::string text = absl::StrCat("it refused ", command, ": ", error.text);
    const bool is_auth = command == "AUTH" && !options_.auth_may_fail;
    if (is_auth || error.kind == RedisError::Kind::kAuth) return Close(absl::UnauthenticatedError(text));
    // A user that may run the scripts alone is as good.
    if ((command != "PING" && command != "AUTH") || error.kind == RedisError::Kind::kRetry) {
      return Close(absl::UnavailableError(text));
    }
  }
  if (command == "PING" && reply.type != REDIS_REPLY_ERROR && ReplyText(reply) != "PONG") {
    return Close(absl::UnavailableError("it answers PING without PONG: it is no Redis"));
  }
  if (command == "ROLE") {
    const bool is_master =
        reply.type == REDIS_REPLY_ARRAY && reply.elements > 0 && ReplyText(*reply.element[0]) == "master";
    if (!is_master) return Close(absl::UnavailableError("it is no master"));
  }
  if (!login_.empty()) return;
  state_ = State::kOpen;
  loop_->Cancel(timer_);
  WatchSilence();
  observer_->OnOpen();
}

void RedisConnection::Send(std::span<const std::string_view> words) {
  if (state_ == State::kClosed) return;
  AppendCommand(words, plain_);
  if (unanswered_++ == 0) last_heard_ = loop_->Now();
  FlushSoon();
}

void RedisConnection::FlushSoon() {
  if (std::exchange(flush_posted_, true)) return;
  loop_->Post([self = shared_from_this()] {
    self->flush_posted_ = false;
    self->Flush();
  });
}

void RedisConnection::Flush() {
  if (state_ == State::kClosed) return;
  if (tls_ == nullptr && out_.empty()) {
    out_.swap(plain_);
  } else if (tls_ == nullptr) {
    out_.append(plain_);
  } else if (absl::Status sealed = tls_->Send(plain_, out_); !sealed.ok()) {
    return Close(std::move(sealed));
  }
  plain_.clear();
  while (unsent() > 0) {
    const ssize_t sent = send(socket_, out_.data() + out_begin_, unsent(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return Close(SystemError("the connection broke", errno));
    out_begin_ += static_cast<size_t>(sent);
    if (observer_ != nullptr) observer_->OnBytes(sent, 0);
  }
  if (unsent() == 0 || out_begin_ > kCompactBytes) {
    out_.erase(0, std::exchange(out_begin_, 0));
    if (out_.empty() && out_.capacity() > kCompactBytes) out_ = {};
  }
}

void RedisConnection::Read() {
  std::array<char, kReadBytes> buffer;
  while (state_ != State::kClosed) {
    const ssize_t count = recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count < 0) return Close(SystemError("the connection broke", errno));
    if (count == 0) return Close(absl::UnavailableError("it closed the connection"));
    if (observer_ != nullptr) observer_->OnBytes(0, count);
    const std::string_view bytes(buffer.data(), static_cast<size_t>(count));
    if (tls_ == nullptr) {
      ReadReplies(bytes);
    } else {
      OnTlsBytes(bytes);
    }
  }
}

void RedisConnection::ReadReplies(std::string_view bytes) {
  reader_.Feed(bytes);
  last_heard_ = loop_->Now();
  while (state_ != State::kClosed) {
    absl::StatusOr<RedisReply> reply = reader_.Next();
    if (!reply.ok()) return Close(absl::UnavailableError(reply.status().message()));
    if (*reply == nullptr) return;
    if (unanswered_ == 0) return Close(absl::UnavailableError("it answered what was not asked"));
    --unanswered_;
    if (state_ == State::kLogin) {
      OnLoginReply(**reply);
    } else {
      observer_->OnReply(**reply);
    }
  }
}

// Twice per `silence`: whether an answer is overdue, or the connection idle.
void RedisConnection::WatchSilence() {
  const absl::Duration quiet = loop_->Now() - last_heard_;
  if (unanswered_ > 0 && quiet >= options_.silence) {
    return Close(absl::UnavailableError(absl::StrCat("no answer for ", absl::FormatDuration(options_.silence))));
  }
  if (unanswered_ == 0 && quiet >= options_.silence / 2) observer_->OnIdle();
  timer_ = loop_->At(loop_->Now() + options_.silence / 2, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self != nullptr && self->state_ == State::kOpen) self->WatchSilence();
  });
}

void RedisConnection::CloseSocket() {
  if (socket_ < 0) return;
  loop_->Unwatch(watch_, socket_);
  close(std::exchange(socket_, -1));
}

void RedisConnection::Close(absl::Status why) {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  CloseSocket();
  loop_->Cancel(timer_);
  plain_.clear();
  out_.clear();
  out_begin_ = 0;
  if (Observer* const observer = std::exchange(observer_, nullptr)) observer->OnClosed(why);
}

void RedisConnection::Abandon() {
  observer_ = nullptr;
  Close(absl::UnavailableError("abandoned"));
}

}  // namespace rnnserve
