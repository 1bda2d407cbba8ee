// SPDX-License-Identifier: Apache-2.0
#include "server/transport/listen_socket.h"

#include <gmock/gmock.h>
#include <sys/un.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/server/transport/loopback.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

TEST(Listen, PicksAFreePort) {
  const auto sockets = Listen("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_GT(sockets->front().port(), 0);
  EXPECT_GE(ConnectTo(sockets->front().port()).get(), 0);
}

TEST(Listen, AllAddressesOfANameShareOnePort) {
  const auto sockets = Listen("localhost:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  for (const ListenSocket& socket : *sockets) EXPECT_EQ(socket.port(), sockets->front().port());
}

TEST(Listen, APortInUseIsTold) {
  const auto first = Listen("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const std::string address = absl::StrCat("127.0.0.1:", first->front().port());
  const auto second = Listen(address);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("cannot listen on ", address)));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(Listen, ThePortIsFreeOnceTheSocketHasGone) {
  std::string address;
  {
    const auto first = Listen("127.0.0.1:0");
    address = absl::StrCat("127.0.0.1:", first->front().port());
  }
  EXPECT_TRUE(Listen(address).ok());
}

TEST(Listen, AddressesThatCannotBe) {
  for (const char* address : {"nowhere.invalid:1", "127.0.0.1", "127.0.0.1:http1", "198.51.100.1:0", "unix:"}) {
    EXPECT_EQ(Listen(address).status().code(), absl::StatusCode::kUnavailable) << address;
  }
  EXPECT_FALSE(Listen("unix:/" + std::string(200, 'x')).ok());
}

TEST(Listen, ASocketFileGoesWithItsSocketAndADeadOneIsReplaced) {
  const std::string path = testing::TempDir() + "/rnnserve-listen-test.sock";
  const std::string address = "unix:" + path;
  std::filesystem::remove(path);
  {
    const auto first = Listen(address);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(first->front().port(), 0);
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_FALSE(Listen(address).ok()) << "somebody answers there";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {  // what a killed server leaves behind
    const OwnedFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un where = {};
    where.sun_family = AF_UNIX;
    path.copy(where.sun_path, sizeof(where.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(Listen(address).ok());
}

}  // namespace
}  // namespace rnnserve
