// SPDX-License-Identifier: Apache-2.0
// A connection that carries one small request and its answer, until a deadline for all of it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rnnserve {

class HttpSocket {
 public:
  // Owns `fd`, which does not block. Waits end when `stop_fd` (-1: none) can be read.
  HttpSocket(int fd, int stop_fd, absl::Duration timeout);
  ~HttpSocket();
  HttpSocket(HttpSocket&& other) noexcept;
  HttpSocket& operator=(HttpSocket&&) = delete;

  // host:port, [v6]:port; a host of all addresses is asked for at this machine. UNAVAILABLE says why not.
  static absl::StatusOr<HttpSocket> Connect(const std::string& address, absl::Duration timeout);

  // What comes before the first empty line, those in front left out. Not whole if the time is over, the other side has
  // ended, or it is longer than 16 KiB.
  struct Head {
    std::string text;
    bool is_whole = false;
    bool is_too_long = false;
  };
  Head ReadHead();
  // False if the other side does not take it.
  bool Write(std::string_view text);
  // Says that nothing more comes, and reads what the other side still sends: closing over it would take back what was
  // written.
  void Finish();

 private:
  bool Await(short events);
  // The bytes read; 0 at the end, or when the time is over.
  size_t ReadSome(char* to, size_t most);

  int fd_;
  const int stop_fd_;
  absl::Time deadline_;
};

}  // namespace rnnserve
