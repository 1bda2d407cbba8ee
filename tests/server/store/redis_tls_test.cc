// SPDX-License-Identifier: Apache-2.0
// The store over TLS: which servers it trusts, and the certificate that it shows them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "server/store/redis_store.h"
#include "tests/server/store/redis_process.h"
#include "tests/server/store/store_calls.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

class RedisTlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!HasRedis()) return;
    std::string made = (std::filesystem::temp_directory_path() / "redis-tls-XXXXXX").string();
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder_ = new std::string(made);
    MakeCertificate("ours", "DNS:localhost,IP:127.0.0.1");
    MakeCertificate("elsewhere", "DNS:elsewhere.example");
    port_ = FreePort();
    redis_ = Redis("ours", port_);
  }
  static void TearDownTestSuite() {
    redis_.reset();
    if (folder_ != nullptr) std::filesystem::remove_all(*folder_);
    delete folder_;
  }
  void SetUp() override { RNNSERVE_SKIP_WITHOUT_REDIS(); }

  static std::string Path(const std::string& name) { return *folder_ + "/" + name; }

  // Signed by itself, so also its own CA.
  static void MakeCertificate(const std::string& name, const std::string& hosts) {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test -keyout " +
        Path(name + ".key") + " -out " + Path(name + ".pem") + " -addext subjectAltName=" + hosts + " 2>/dev/null";
    ASSERT_EQ(system(command.c_str()), 0) << command;  // NOLINT: made of the test's own words
  }

  // Asks its clients for a certificate of `name`.
  static std::unique_ptr<RedisProcess> Redis(const std::string& name, int tls_port) {
    return std::make_unique<RedisProcess>(
        std::vector<std::string>{"--tls-port", std::to_string(tls_port), "--tls-cert-file", Path(name + ".pem"),
                                 "--tls-key-file", Path(name + ".key"), "--tls-ca-cert-file", Path(name + ".pem")});
  }
  static std::string Url(const std::string& host, int port, const std::string& ca, const std::string& own) {
    const std::string shown = own.empty() ? "" : "&cert=" + Path(own + ".pem") + "&key=" + Path(own + ".key");
    return "rediss://" + host + ":" + std::to_string(port) + "?ca=" + Path(ca + ".pem") + shown;
  }
  static absl::Status WriteOver(const std::string& url) {
    const auto store =
        MakeStore({.address = ParseStoreAddress(url).value(), .connect_timeout = absl::Milliseconds(200)});
    return Write(*store, WriteRequestOf(1, 1, "x", absl::Milliseconds(400)));
  }

  static std::string* folder_;
  static int port_;
  static std::unique_ptr<RedisProcess> redis_;
};

std::string* RedisTlsTest::folder_ = nullptr;
int RedisTlsTest::port_ = 0;
std::unique_ptr<RedisProcess> RedisTlsTest::redis_;

TEST_F(RedisTlsTest, RecordsGoAndCome) {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    redis_->AskText({"FLUSHALL"});
    const auto store = MakeStore(Url(host, port_, "ours", "ours"));
    for (const size_t size : {size_t{0}, size_t{16'384}, size_t{3} << 20}) {
      const std::string record(size, 'x');
      ASSERT_EQ(Write(*store, 1, 1, record), absl::OkStatus());
      EXPECT_TRUE(Take(*store, 1, 1).value() == record);
    }
    std::vector<std::future<absl::Status>> written;
    for (int i = 0; i < 500; ++i) written.push_back(StartWrite(*store, WriteRequestOf(i, 1, std::string(3000, 'x'))));
    for (auto& one : written) EXPECT_EQ(one.get(), absl::OkStatus());
  }
}

TEST_F(RedisTlsTest, AServerOfAnotherCaIsNotTrusted) {
  const absl::Status refused = WriteOver(Url("127.0.0.1", port_, "elsewhere", "ours"));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("the TLS handshake failed: self-signed certificate"));
}

TEST_F(RedisTlsTest, ACertificateOfAnotherHostIsNotTrusted) {
  const int port = FreePort();
  const auto redis = Redis("elsewhere", port);
  EXPECT_THAT(WriteOver(Url("127.0.0.1", port, "elsewhere", "elsewhere")).ToString(), HasSubstr("IP address mismatch"));
  EXPECT_THAT(WriteOver(Url("localhost", port, "elsewhere", "elsewhere")).ToString(), HasSubstr("hostname mismatch"));
}

TEST_F(RedisTlsTest, AServerThatAsksForACertificate) {
  const absl::Status refused = WriteOver(Url("127.0.0.1", port_, "ours", ""));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("certificate required"));
}

TEST_F(RedisTlsTest, OneSideWithoutTls) {
  EXPECT_THAT(WriteOver(Url("127.0.0.1", redis_->host().port, "ours", "ours")).ToString(),
              HasSubstr("the connection was not made in time"));
  EXPECT_THAT(WriteOver("redis://127.0.0.1:" + std::to_string(port_)).ToString(),
              testing::AnyOf(HasSubstr("it closed the connection"), HasSubstr("its answer is not RESP"),
                             HasSubstr("the connection broke")));
}

TEST_F(RedisTlsTest, FilesThatAreNoneAreRefusedAtTheStart) {
  std::ofstream(Path("empty.pem")) << "nothing";
  std::ofstream(Path("empty.key")) << "nothing";
  const std::pair<std::string, std::string> cases[] = {
      {Url("a", 1, "empty", ""), "empty.pem: no certificates of a CA"},
      {Url("a", 1, "ours", "empty"), "empty.pem: no certificate"},
      {"rediss://a?cert=" + Path("ours.pem") + "&key=" + Path("elsewhere.key"), "elsewhere.key: no key of "},
      {"rediss://a?ca=" + Path("none.pem"), "none.pem: cannot be read"},
  };
  for (const auto& [url, text] : cases) {
    const auto made = RedisStore::Create({.address = ParseStoreAddress(url).value()});
    EXPECT_TRUE(absl::IsFailedPrecondition(made.status())) << url << made.status();
    EXPECT_THAT(made.status().ToString(), HasSubstr(text)) << url;
  }
}

}  // namespace
}  // namespace rnnserve
