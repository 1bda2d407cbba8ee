// SPDX-License-Identifier: Apache-2.0
// One connection to a Redis: looks up the name, connects, makes TLS, logs in, and from OnOpen on sends commands and
// hands over replies, in order. It ends once, with OnClosed; what comes after that is a new connection.
//
//   auto connection = RedisConnection::Start(loop, options, host, observer);
//   connection->Send({"PING"});          // from OnOpen on; leaves with the others of this round of the loop
//   connection->Abandon();               // from here on `observer` is not called
//
// All on the loop's thread. Nothing blocks.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/event_loop.h"
#include "server/store/redis_protocol.h"
#include "server/store/resolver.h"
#include "server/store/store_address.h"
#include "server/store/tls_session.h"

namespace rnnserve {

struct ConnectionOptions {
  StoreAddress address = {};  // user, files and database; not the hosts
  // What the server must be: any, or a master (Sentinel may still name one that has just been replaced).
  bool must_be_master = false;
  // Of Sentinels, which may have no password where the master has one.
  bool auth_may_fail = false;
  absl::Duration connect_timeout = absl::Seconds(2);  // from Start to OnOpen
  // A connection with a command unanswered for this long is closed; an idle one is sent OnIdle after half of it.
  absl::Duration silence = absl::Seconds(3);
  size_t most_reply_bytes = size_t{512} << 20;
};

class RedisConnection : public std::enable_shared_from_this<RedisConnection> {
 public:
  class Observer {
   public:
    virtual void OnOpen() = 0;
    virtual void OnReply(const redisReply& reply) = 0;  // to the oldest command without one
    virtual void OnIdle() = 0;
    // UNAVAILABLE, or UNAUTHENTICATED where the password is wrong. Says what the server did, without its name.
    virtual void OnClosed(const absl::Status& why) = 0;
    virtual void OnBytes(int64_t sent, int64_t received) = 0;

   protected:
    ~Observer() = default;
  };

  // The observer is called from the loop, never from Start.
  static std::shared_ptr<RedisConnection> Start(std::shared_ptr<EventLoop> loop, ConnectionOptions options,
                                                StoreHost host, Observer* observer);
  ~RedisConnection();

  void Send(std::span<const std::string_view> words);
  // Bytes that wait for the socket.
  size_t unsent() const { return plain_.size() + out_.size() - out_begin_; }
  void Abandon();

 private:
  enum class State { kConnecting, kTls, kLogin, kOpen, kClosed };

  RedisConnection(std::shared_ptr<EventLoop> loop, ConnectionOptions options, StoreHost host, Observer* observer);

  void Begin();
  void ConnectNext(absl::Status last);
  absl::Status Connect(const SocketAddress& address);
  void OnSocket(uint32_t events);
  void BeginTls();
  void Login();
  void OnLoginReply(const redisReply& reply);
  void Read();
  void OnTlsBytes(std::string_view bytes);
  void ReadReplies(std::string_view bytes);
  void FlushSoon();
  void Flush();
  void WatchSilence();
  void CloseSocket();
  void Close(absl::Status why);

  const std::shared_ptr<EventLoop> loop_;
  const ConnectionOptions options_;
  const StoreHost host_;
  Observer* observer_;  // null: abandoned
  State state_ = State::kConnecting;
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  int socket_ = -1;
  uint64_t watch_ = 0;
  EventLoop::Timer timer_;

  std::unique_ptr<TlsSession> tls_;  // null: without TLS
  std::string plain_;                // commands; they move on to out_, through TLS
  std::string out_;
  size_t out_begin_ = 0;  // what comes before has been sent
  bool flush_posted_ = false;
  ReplyReader reader_;
  std::vector<std::string> login_;  // names of the commands of the login that are unanswered, the next one last
  int64_t unanswered_ = 0;
  absl::Time last_heard_;  // or when the first unanswered command was sent
};

}  // namespace rnnserve
