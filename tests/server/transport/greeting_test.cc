// SPDX-License-Identifier: Apache-2.0
#include "server/transport/greeting.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>

namespace rnnserve {
namespace {

using Parse = Greeting (*)(std::span<const uint8_t>, size_t);

Greeting After(Parse parse, std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kGreetingHeadBytes);
  return parse({reinterpret_cast<const uint8_t*>(head.data()), head.size()}, bytes.size());
}

// Of every length up to the last byte it is not yet there, from there on it is.
void ExpectWithItsLastByte(Parse parse, const std::string& greeting, Greeting expected,
                           Greeting before = Greeting::kNotYet, size_t from = 0) {
  for (size_t bytes = from; bytes < greeting.size(); ++bytes) {
    EXPECT_EQ(After(parse, std::string_view(greeting).substr(0, bytes)), before) << bytes;
  }
  EXPECT_EQ(After(parse, greeting), expected);
}

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
constexpr int kAck = 1, kEndHeaders = 4;

std::string Frame(int type, int flags, size_t length, size_t come) {
  const std::string header = {static_cast<char>(length >> 16),
                              static_cast<char>(length >> 8),
                              static_cast<char>(length),
                              static_cast<char>(type),
                              static_cast<char>(flags),
                              0,
                              0,
                              0,
                              0};
  return header + std::string(come, 'x');
}
std::string Frame(int type, int flags, size_t length) { return Frame(type, flags, length, length); }
std::string Http2(int type, size_t length, size_t come) { return std::string(kPreface) + Frame(type, 0, length, come); }
const std::string& Http2() {
  static const std::string greeting = Http2(kSettings, 30, 30);
  return greeting;
}

TEST(Http2Greeting, IsThePrefaceAndTheFirstSettings) {
  ExpectWithItsLastByte(&ParseHttp2Greeting, Http2(kSettings, 0, 0), Greeting::kComplete);
  ExpectWithItsLastByte(&ParseHttp2Greeting, Http2(kSettings, 300, 300), Greeting::kComplete);
}

TEST(Http2Greeting, ACallIsCompleteHeaders) {
  const std::string greeting =
      Http2() + Frame(kWindow, 0, 4) + Frame(kSettings, kAck, 0) + Frame(kPriority, 0, 5) + Frame(kWindow, 0, 4);
  EXPECT_EQ(After(&ParseHttp2Greeting, greeting), Greeting::kComplete);
  for (const std::string& headers :
       {Frame(kHeaders, kEndHeaders, 70), Frame(kHeaders, kEndHeaders, 10'000),
        Frame(kHeaders, 0, 70) + Frame(kContinuation, 0, 0) + Frame(kContinuation, kEndHeaders, 7)}) {
    ExpectWithItsLastByte(&ParseHttp2Greeting, greeting + headers, Greeting::kCalls, Greeting::kComplete,
                          Http2().size());
    EXPECT_EQ(After(&ParseHttp2Greeting, greeting + headers + Frame(kData, 0, 1000)), Greeting::kCalls);
  }
}

TEST(Http2Greeting, HeadersWithoutEndAreNoCall) {
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2() + Frame(kHeaders, 0, 70)), Greeting::kComplete);
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2() + Frame(kHeaders, 0, 70) + Frame(kData, kEndHeaders, 1)),
            Greeting::kElse);
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2() + Frame(kHeaders, kEndHeaders, 70, 69)), Greeting::kComplete);
}

TEST(Http2Greeting, WhatOnlyAWholeServerHasAnAnswerFor) {
  for (const int type :
       {int{kData}, int{kReset}, int{kSettings}, int{kPush}, int{kPing}, int{kGoAway}, int{kContinuation}, 77}) {
    EXPECT_EQ(After(&ParseHttp2Greeting, Http2() + Frame(kWindow, 0, 4) + Frame(type, 0, 0)), Greeting::kElse) << type;
  }
}

TEST(Http2Greeting, ACallAfterSomethingElseIsACall) {
  const std::string pinging = Http2() + Frame(kPing, 0, 8) + Frame(kWindow, 0, 4) + Frame(kPing, 0, 8);
  ExpectWithItsLastByte(&ParseHttp2Greeting, pinging + Frame(kHeaders, kEndHeaders, 70), Greeting::kCalls,
                        Greeting::kElse, pinging.size());
}

TEST(Http2Greeting, NobodyLooksFarther) {
  std::string long_greeting = Http2(kSettings, 300, 300);
  while (long_greeting.size() + 9 <= kGreetingHeadBytes) {
    EXPECT_EQ(After(&ParseHttp2Greeting, long_greeting), Greeting::kComplete) << long_greeting.size();
    long_greeting += Frame(kWindow, 0, 4);
  }
  EXPECT_EQ(After(&ParseHttp2Greeting, long_greeting), Greeting::kComplete);
  EXPECT_EQ(After(&ParseHttp2Greeting, long_greeting + Frame(kHeaders, kEndHeaders, 70)), Greeting::kElse);
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2(kSettings, 600, 600)), Greeting::kComplete);
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2() + Frame(kHeaders, 0, 600) + Frame(kContinuation, kEndHeaders, 1)),
            Greeting::kElse);
}

TEST(Http2Greeting, AWrongByteIsNoticedAtOnce) {
  for (size_t wrong = 0; wrong < kPreface.size(); ++wrong) {
    std::string bytes(kPreface.substr(0, wrong + 1));
    bytes[wrong] = '?';
    EXPECT_EQ(After(&ParseHttp2Greeting, bytes), Greeting::kWrong) << wrong;
  }
  EXPECT_EQ(After(&ParseHttp2Greeting, "GET / HTTP/1.1\r\n"), Greeting::kWrong);
}

TEST(Http2Greeting, WhatFollowsMustBeSettingsOfAllowedSize) {
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2(kHeaders, 0, 0)), Greeting::kWrong);
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2(kSettings, 16384, 0)), Greeting::kNotYet);
  EXPECT_EQ(After(&ParseHttp2Greeting, Http2(kSettings, 16385, 0)), Greeting::kWrong);
}

// What is known stays so, however much more comes, and whatever it is; but a connection that asks may call yet.
TEST(Http2Greeting, IsNeverTakenBack) {
  std::mt19937 random(1);
  const auto pick = [&random](size_t below) { return random() % below; };
  std::array<int, 5> seen = {};
  for (int k = 0; k < 2000; ++k) {
    std::string bytes = Http2(kSettings, pick(100), 0);
    bytes.append(static_cast<uint8_t>(bytes[bytes.size() - 7]), 'x');
    while (bytes.size() < 2 * kGreetingHeadBytes) {
      constexpr int kTypes[] = {kWindow, kPriority, kSettings, kHeaders, kContinuation, kPing};
      bytes += Frame(kTypes[pick(6)], static_cast<int>(pick(8)), pick(60));
    }
    for (size_t flips = pick(4); flips > 0; --flips) bytes[pick(bytes.size())] = static_cast<char>(pick(256));
    Greeting last = Greeting::kNotYet;
    for (size_t come = 0; come <= bytes.size(); ++come) {
      const Greeting now = After(&ParseHttp2Greeting, std::string_view(bytes).substr(0, come));
      if (last == Greeting::kComplete) {
        ASSERT_TRUE(now != Greeting::kNotYet && now != Greeting::kWrong) << k << " " << come;
      } else if (last == Greeting::kElse) {
        ASSERT_TRUE(now == Greeting::kElse || now == Greeting::kCalls) << k << " " << come;
      } else if (last != Greeting::kNotYet) {
        ASSERT_EQ(now, last) << k << " " << come;
      }
      last = now;
    }
    ++seen[static_cast<size_t>(last)];
  }
  EXPECT_GT(seen[static_cast<size_t>(Greeting::kCalls)], 100);
  EXPECT_GT(seen[static_cast<size_t>(Greeting::kElse)], 100);
  EXPECT_GT(seen[static_cast<size_t>(Greeting::kWrong)], 10);
}

std::string Record(char type, char major, size_t length, size_t come) {
  const std::string header = {type, major, 1, static_cast<char>(length >> 8), static_cast<char>(length)};
  return header + std::string(come, 'x');
}

TEST(TlsGreeting, IsTheFirstRecord) {
  ExpectWithItsLastByte(&ParseTlsGreeting, Record(22, 3, 1, 1), Greeting::kCalls);
  ExpectWithItsLastByte(&ParseTlsGreeting, Record(22, 3, 517, 517), Greeting::kCalls);
  EXPECT_EQ(After(&ParseTlsGreeting, Record(22, 3, 517, 517) + "more"), Greeting::kCalls);
  EXPECT_EQ(After(&ParseTlsGreeting, Record(22, 3, 16384, 16384)), Greeting::kCalls);
}

TEST(TlsGreeting, AWrongByteIsNoticedAtOnce) {
  EXPECT_EQ(After(&ParseTlsGreeting, "P"), Greeting::kWrong);
  EXPECT_EQ(After(&ParseTlsGreeting, Record(23, 3, 10, 0)), Greeting::kWrong);
  EXPECT_EQ(After(&ParseTlsGreeting, Record(22, 2, 10, 0).substr(0, 2)), Greeting::kWrong);
  EXPECT_EQ(After(&ParseTlsGreeting, Record(22, 3, 0, 0)), Greeting::kWrong);
  EXPECT_EQ(After(&ParseTlsGreeting, Record(22, 3, 16385, 0)), Greeting::kWrong);
}

TEST(Http2ServerGreeting, IsASettingsFrame) {
  const std::string_view expected(
      "\0\0\x18\4\0\0\0\0\0"
      "\0\3\0\1\2\3"
      "\0\4\0\0\xff\xff"
      "\0\6\0\0\x20\0"
      "\xfe\3\0\0\0\1",
      33);
  EXPECT_EQ(Http2ServerGreeting(0x10203), expected);
}

}  // namespace
}  // namespace rnnserve
