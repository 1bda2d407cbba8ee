// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/greeting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace rnnserve {
namespace {

using Look = Greeting (*)(std::span<const uint8_t>, size_t);

Greeting After(Look look, std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kGreetingHeadBytes);
  return look({reinterpret_cast<const uint8_t*>(head.data()), head.size()}, bytes.size());
}

// Of every length up to the last byte it is not yet complete, from there on it is.
void ExpectCompleteWithItsLastByte(Look look, const std::string& greeting) {
  for (size_t bytes = 0; bytes < greeting.size(); ++bytes) {
    EXPECT_EQ(After(look, std::string_view(greeting).substr(0, bytes)), Greeting::kNotYet) << bytes;
  }
  EXPECT_EQ(After(look, greeting), Greeting::kComplete);
  EXPECT_EQ(After(look, greeting + "and a call"), Greeting::kComplete);
}

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Http2(char type, size_t length, size_t come) {
  const std::string header = {
      static_cast<char>(length >> 16), static_cast<char>(length >> 8), static_cast<char>(length), type, 0, 0, 0, 0, 0};
  return std::string(kPreface) + header + std::string(come, 'x');
}

TEST(Http2Greeting, IsThePrefaceAndTheFirstSettings) {
  ExpectCompleteWithItsLastByte(&LookAtHttp2Greeting, Http2(4, 0, 0));
  ExpectCompleteWithItsLastByte(&LookAtHttp2Greeting, Http2(4, 300, 300));
}

TEST(Http2Greeting, AWrongByteIsNoticedAtOnce) {
  for (size_t wrong = 0; wrong < kPreface.size(); ++wrong) {
    std::string bytes(kPreface.substr(0, wrong + 1));
    bytes[wrong] = '?';
    EXPECT_EQ(After(&LookAtHttp2Greeting, bytes), Greeting::kWrong) << wrong;
  }
  EXPECT_EQ(After(&LookAtHttp2Greeting, "GET / HTTP/1.1\r\n"), Greeting::kWrong);
}

TEST(Http2Greeting, WhatFollowsMustBeSettingsOfAllowedSize) {
  EXPECT_EQ(After(&LookAtHttp2Greeting, Http2(1, 0, 0)), Greeting::kWrong);
  EXPECT_EQ(After(&LookAtHttp2Greeting, Http2(4, 16384, 0)), Greeting::kNotYet);
  EXPECT_EQ(After(&LookAtHttp2Greeting, Http2(4, 16385, 0)), Greeting::kWrong);
}

std::string Record(char type, char major, size_t length, size_t come) {
  const std::string header = {type, major, 1, static_cast<char>(length >> 8), static_cast<char>(length)};
  return header + std::string(come, 'x');
}

TEST(TlsGreeting, IsTheFirstRecord) {
  ExpectCompleteWithItsLastByte(&LookAtTlsGreeting, Record(22, 3, 1, 1));
  ExpectCompleteWithItsLastByte(&LookAtTlsGreeting, Record(22, 3, 517, 517));
  EXPECT_EQ(After(&LookAtTlsGreeting, Record(22, 3, 16384, 16384)), Greeting::kComplete);
}

TEST(TlsGreeting, AWrongByteIsNoticedAtOnce) {
  EXPECT_EQ(After(&LookAtTlsGreeting, "P"), Greeting::kWrong);
  EXPECT_EQ(After(&LookAtTlsGreeting, Record(23, 3, 10, 0)), Greeting::kWrong);
  EXPECT_EQ(After(&LookAtTlsGreeting, Record(22, 2, 10, 0).substr(0, 2)), Greeting::kWrong);
  EXPECT_EQ(After(&LookAtTlsGreeting, Record(22, 3, 0, 0)), Greeting::kWrong);
  EXPECT_EQ(After(&LookAtTlsGreeting, Record(22, 3, 16385, 0)), Greeting::kWrong);
}

}  // namespace
}  // namespace rnnserve
