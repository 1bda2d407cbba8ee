// SPDX-License-Identifier: Apache-2.0
#include "tests/server/store/fake_redis.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "server/store/redis_protocol.h"

namespace rnnserve {

FakeRedis::FakeRedis(Answer answer, std::string greeting)
    : answer_(std::move(answer)),
      greeting_(std::move(greeting)),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      end_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

FakeRedis::~FakeRedis() {
  eventfd_write(end_, 1);
  thread_.join();
  close(listener_);
  close(end_);
}

void FakeRedis::Run() {
  std::map<int, std::unique_ptr<ReplyReader>> readers;  // a command looks as a reply that is an array
  // Whether the connection goes on.
  const auto serve = [&](int fd) {
    char buffer[65536];
    const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    readers[fd]->Feed(std::string_view(buffer, static_cast<size_t>(count)));
    while (true) {
      const auto command = readers[fd]->Next();
      if (!command.ok() || *command == nullptr) return command.ok();
      std::vector<std::string> words;
      for (size_t i = 0; i < (*command)->elements; ++i) words.emplace_back(ReplyText(*(*command)->element[i]));
      const std::string answer = answer_(words);
      if (answer == kHangUp) return false;
      send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  };
  while (true) {
    std::vector<pollfd> polled = {{end_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& [fd, reader] : readers) polled.push_back({fd, POLLIN, 0});
    poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) break;
    if (polled[1].revents != 0) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      readers[fd] = std::make_unique<ReplyReader>(size_t{1} << 30);
      ++connections_;
      send(fd, greeting_.data(), greeting_.size(), MSG_NOSIGNAL);
    }
    for (size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || serve(polled[i].fd)) continue;
      close(polled[i].fd);
      readers.erase(polled[i].fd);
    }
  }
  for (const auto& [fd, reader] : readers) close(fd);
}

}  // namespace rnnserve
