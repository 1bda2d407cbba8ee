// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_request.h"

#include <gtest/gtest.h>

#include <string>

namespace rnnserve {
namespace {

// The path of GET `target`; "none" where that is no request.
std::string PathOf(const std::string& target) {
  const auto request = ParseRequestLine("GET " + target + " HTTP/1.1");
  return request ? request->path : "none";
}

TEST(HttpRequestTest, Paths) {
  EXPECT_EQ(PathOf("/"), "/");
  EXPECT_EQ(PathOf("/metrics?name[]=x?y"), "/metrics");
  EXPECT_EQ(PathOf("/%6Detrics%2f..%00"), std::string("/metrics/..\0", 12));
  EXPECT_EQ(PathOf("/a/../b//c"), "/a/../b//c") << "as it was sent";
}

TEST(HttpRequestTest, TargetsWithTheirHost) {
  EXPECT_EQ(PathOf("http://host/metrics"), "/metrics");
  EXPECT_EQ(PathOf("hTTp://[::1]:9464/metrics?x=http://y/z"), "/metrics");
  EXPECT_EQ(PathOf("http://host"), "/");
  EXPECT_EQ(PathOf("http://host?x"), "/");
  EXPECT_EQ(PathOf("http://"), "none");
  EXPECT_EQ(PathOf("http:///metrics"), "none");
  EXPECT_EQ(PathOf("/http://host/metrics"), "/http://host/metrics");
}

TEST(HttpRequestTest, TargetsWithoutAPath) {
  for (const char* target : {"*", "metrics", "host:80", "https://host/metrics", "/%", "/%4", "/%zz", "/%-1", "?x"}) {
    EXPECT_EQ(PathOf(target), "") << target;
  }
}

TEST(HttpRequestTest, Lines) {
  EXPECT_EQ(ParseRequestLine("HEAD / HTTP/1.0").value().method, "HEAD");
  for (const char* line :
       {"", " ", "  ", "GET", "GET /", "GET / ", "GET  HTTP/1.1", " / HTTP/1.1", "GET / HTTP/1.1 ", "GET /a b HTTP/1.1",
        "GET  / HTTP/1.1", "GET / HTTP/2.0", "GET / http/1.1", "GET / HTTP/1.12"}) {
    EXPECT_FALSE(ParseRequestLine(line)) << line;
  }
}

}  // namespace
}  // namespace rnnserve
