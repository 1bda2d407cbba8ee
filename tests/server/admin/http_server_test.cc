// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/admin/health_probe.h"
#include "server/admin/http_socket.h"

namespace rnnserve {
namespace {

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(where);
    ASSERT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&where), size), 0);
    ASSERT_EQ(listen(socket_, 128), 0);
    ASSERT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&where), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(where.sin_port));
  }
  void TearDown() override { close(socket_); }

  std::unique_ptr<HttpServer> Serve() {
    HttpServer::Options options;
    options.sockets = {socket_};
    options.pages["/"] = [this] { return HttpPage{200, "text/plain", absl::StrCat(++made_)}; };
    options.pages["/sick"] = [] { return HttpPage{503, "text/plain", "no"}; };
    options.pages["/large"] = []() -> HttpPage { throw std::bad_alloc(); };
    return std::make_unique<HttpServer>(std::move(options));
  }

  HttpSocket Connected() { return HttpSocket::Connect(address_, absl::Minutes(1)).value(); }

  int socket_ = -1;
  std::string address_;
  std::atomic<int> made_ = 0;
};

TEST_F(HttpServerTest, ManyCallersAtOnce) {
  const std::unique_ptr<HttpServer> server = Serve();
  std::vector<std::thread> callers;
  for (int k = 0; k < 32; ++k) {
    callers.emplace_back([&] { EXPECT_TRUE(ProbeHealth(address_, "/", absl::Minutes(1)).ok()); });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(made_, 32);
}

TEST_F(HttpServerTest, WhatAProbeIsTold) {
  std::unique_ptr<HttpServer> server = Serve();
  EXPECT_TRUE(ProbeHealth(address_, "/?really", absl::Minutes(1)).ok());
  const auto told = [&](const char* path) {
    return std::string(ProbeHealth(address_, path, absl::Minutes(1)).message());
  };
  EXPECT_EQ(told("/sick"), absl::StrCat(address_, "/sick answers HTTP/1.1 503 Service Unavailable"));
  EXPECT_EQ(told("/none"), absl::StrCat(address_, "/none answers HTTP/1.1 404 Not Found"));
  EXPECT_EQ(told("/large"), absl::StrCat(address_, "/large answers HTTP/1.1 503 Service Unavailable"))
      << "a page that finds no memory is not the end of the server";
  server.reset();
  close(std::exchange(socket_, -1));
  EXPECT_EQ(told("/"), absl::StrCat("no server at ", address_, ": Connection refused"));
}

TEST_F(HttpServerTest, GoesWhileCallersAreSilent) {
  std::unique_ptr<HttpServer> server = Serve();
  std::vector<HttpSocket> silent;
  for (int k = 0; k < 8; ++k) {
    silent.push_back(Connected());
    silent.back().Write("GET / HTTP/1.1\r\nHost");
  }
  EXPECT_TRUE(ProbeHealth(address_, "/", absl::Minutes(1)).ok()) << "others are served";
  server.reset();
  for (HttpSocket& caller : silent) EXPECT_FALSE(caller.ReadHead().is_whole);
}

TEST_F(HttpServerTest, GoesWhileNobodyCalls) { Serve(); }

}  // namespace
}  // namespace rnnserve
