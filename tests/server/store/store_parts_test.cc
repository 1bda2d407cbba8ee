// SPDX-License-Identifier: Apache-2.0
// What needs no Redis: the URL, errors, slots, replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/discovery.h"
#include "server/store/redis_error.h"
#include "server/store/redis_protocol.h"
#include "server/store/slot_map.h"
#include "server/store/store_address.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(StoreAddressTest, OneRedis) {
  const StoreAddress plain = ParseStoreAddress("redis://cache").value();
  EXPECT_EQ(plain.kind, StoreAddress::Kind::kSingle);
  EXPECT_FALSE(plain.tls);
  EXPECT_THAT(plain.hosts, ElementsAre(StoreHost{"cache", 6379}));
  EXPECT_EQ(plain.db, 0);

  const StoreAddress full =
      ParseStoreAddress("rediss://us%40er@[::1]:7000/3?password_file=/p%20w&ca=/ca.pem&cert=/c.pem&key=/k.pem").value();
  EXPECT_TRUE(full.tls);
  EXPECT_EQ(full.user, "us@er");
  EXPECT_THAT(full.hosts, ElementsAre(StoreHost{"::1", 7000}));
  EXPECT_EQ(HostText(full.hosts[0]), "[::1]:7000");
  EXPECT_EQ(full.db, 3);
  EXPECT_EQ(full.password_file, "/p w");
  EXPECT_EQ(full.ca_file, "/ca.pem");
  EXPECT_EQ(full.cert_file, "/c.pem");
  EXPECT_EQ(full.key_file, "/k.pem");
}

TEST(StoreAddressTest, SentinelsAndClusters) {
  const StoreAddress sentinel = ParseStoreAddress("redis+sentinel://a,b:1/mymaster").value();
  EXPECT_EQ(sentinel.kind, StoreAddress::Kind::kSentinel);
  EXPECT_THAT(sentinel.hosts, ElementsAre(StoreHost{"a", 26379}, StoreHost{"b", 1}));
  EXPECT_EQ(sentinel.master_name, "mymaster");
  const StoreAddress cluster = ParseStoreAddress("rediss+cluster://a:1,b").value();
  EXPECT_EQ(cluster.kind, StoreAddress::Kind::kCluster);
  EXPECT_TRUE(cluster.tls);
  EXPECT_THAT(cluster.hosts, ElementsAre(StoreHost{"a", 1}, StoreHost{"b", 6379}));
}

TEST(StoreAddressTest, RefusalsNameThePartAndTheFix) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "it is no URL: write redis://host:port"},
      {"localhost:6379", "it is no URL: write redis://host:port"},
      {"http://a", "the scheme \"http\": use redis://"},
      {"redis+http://a", "the scheme \"redis+http\""},
      {"redis://", "the host is empty"},
      {"redis://a:0", "the port \"0\": write a number from 1 to 65535"},
      {"redis://a:", "the port \"\""},
      {"redis://a:65536", "the port \"65536\""},
      {"redis://a:x", "the port \"x\""},
      {"redis://::1", "write an IPv6 address in brackets"},
      {"redis://[::1", "close its bracket"},
      {"redis://[::1]6379", "write [address]:port"},
      {"redis://a,b", "it has several hosts: use redis+sentinel:// or redis+cluster://"},
      {"redis+cluster://a,,b", "the host is empty"},
      {"redis+cluster://a/0", "a cluster has one database: leave it out"},
      {"redis+sentinel://a", "the name of the master is missing"},
      {"redis://a/x", "the database \"x\""},
      {"redis://a/-1", "the database \"-1\""},
      {"redis://u:secret@a", "a password stands in the URL"},
      {"redis://u@a", "the user \"u\" has no password: add ?password_file=PATH"},
      {"redis://a?password=x", "the option \"password\": use password_file, ca, cert or key"},
      {"redis://a?password_file=", "write the path of a file behind its ="},
      {"redis://a?ca=/x", "the option ca is for TLS: use rediss://"},
      {"rediss://a?cert=/x", "one of cert and key is missing"},
      {"redis://a?password_file=%2", "the escape \"%2\""},
      {"redis://a#x", "it has a #"},
  };
  for (const auto& [url, text] : cases) {
    const absl::Status refused = ParseStoreAddress(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << url;
    EXPECT_THAT(refused.ToString(), HasSubstr(text)) << url;
    EXPECT_THAT(refused.ToString(), testing::Not(HasSubstr("secret"))) << url;
  }
}

TEST(RedisErrorTest, Kinds) {
  using Kind = RedisError::Kind;
  const std::pair<const char*, Kind> cases[] = {
      {"LOADING Redis is loading the dataset in memory", Kind::kRetry},
      {"READONLY You can't write against a read only replica.", Kind::kReplica},
      {"ERR Error running script (call to f_0): @user_script:9: -READONLY You can't write", Kind::kReplica},
      {"OOM command not allowed when used memory > 'maxmemory'. script: a", Kind::kFull},
      {"ERR Error running script (call to f_0): @user_script:1: OOM command not allowed", Kind::kFull},
      {"ERR Error running script (call to f_0): @user_script:1: ROOM is here", Kind::kOther},
      {"ERR max number of clients reached", Kind::kRetry},
      {"NOAUTH Authentication required.", Kind::kAuth},
      {"WRONGPASS invalid username-password pair or user is disabled.", Kind::kAuth},
      {"NOSCRIPT No matching script.", Kind::kNoScript},
      {"CLUSTERDOWN Hash slot not served", Kind::kRetry},
      {"MOVED 1 nonsense", Kind::kOther},
      {"MOVED 1 a:99999", Kind::kOther},
      {"", Kind::kOther},
      {"WRONGTYPE Operation against a key", Kind::kOther},
  };
  for (const auto& [text, kind] : cases) EXPECT_EQ(ReadRedisError(text).kind, kind) << text;
}

TEST(RedisErrorTest, WhereTo) {
  EXPECT_EQ(ReadRedisError("MOVED 3999 127.0.0.1:6381").to, (StoreHost{"127.0.0.1", 6381}));
  EXPECT_EQ(ReadRedisError("ASK 3999 fe80::1:6381").to, (StoreHost{"fe80::1", 6381}));
  EXPECT_EQ(ReadRedisError("MOVED 3999 :6381").to, (StoreHost{"", 6381}));
  EXPECT_EQ(ReadRedisError(std::string(1000, '\n')).text.find('\n'), std::string::npos);
  EXPECT_LE(ReadRedisError(std::string(1000, 'x')).text.size(), 200U);
}

// The first is of the cluster's specification, the others of CLUSTER KEYSLOT.
TEST(SlotMapTest, SlotsAreThoseOfRedis) {
  EXPECT_EQ(SlotOf("123456789"), 0x31C3 % kSlots);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("x{foo}y"), 12182);
  EXPECT_EQ(SlotOf("foo{}"), 5542);
  EXPECT_EQ(SlotOf(""), 0);
}

TEST(SlotMapTest, NodesBySlot) {
  SlotMap map;
  EXPECT_EQ(map.Find(5), nullptr);
  map.Set(0, 5, {"a", 1});
  map.Set(6, kSlots - 1, {"b", 2});
  EXPECT_EQ(*map.Find(5), (StoreHost{"a", 1}));
  EXPECT_EQ(*map.Find(6), (StoreHost{"b", 2}));
  EXPECT_THAT(map.hosts(), ElementsAre(StoreHost{"a", 1}, StoreHost{"b", 2}));
}

absl::StatusOr<RedisReply> ReadOne(std::string_view bytes) {
  ReplyReader reader(1000);
  reader.Feed(bytes);
  return reader.Next();
}

TEST(ReplyReaderTest, CommandsComeBackAsTheyAre) {
  const std::string_view words[] = {"SET", std::string_view("\0\r\n", 3), ""};
  std::string bytes;
  AppendCommand(words, bytes);
  const RedisReply reply = ReadOne(bytes).value();
  ASSERT_EQ(reply->elements, 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ReplyText(*reply->element[i]), words[i]);
}

TEST(ReplyReaderTest, Nonsense) {
  for (const std::string_view bytes :
       {std::string_view("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string_view("*2147483647\r\n"),
        std::string_view("*65537\r\n"), std::string_view("$-7\r\n"), std::string_view("\0\xff\r\n", 4)}) {
    EXPECT_THAT(ReadOne(bytes).status().ToString(), HasSubstr("its answer is not RESP")) << bytes;
  }
}

TEST(ReplyReaderTest, AReplyWithoutEnd) {
  ReplyReader reader(1000);
  reader.Feed("$100000\r\n");
  ASSERT_TRUE(reader.Next().ok());
  reader.Feed(std::string(2000, 'x'));
  EXPECT_THAT(reader.Next().status().ToString(), HasSubstr("its answer has more than 1000 bytes"));
}

TEST(DiscoveryTest, TheMasterThatASentinelNames) {
  const SlotMap map = ReadMasterAddress(*ReadOne("*2\r\n$1\r\na\r\n$4\r\n6380\r\n").value(), "name").value();
  EXPECT_EQ(*map.Find(0), (StoreHost{"a", 6380}));
  EXPECT_EQ(*map.Find(kSlots - 1), (StoreHost{"a", 6380}));
  const absl::Status unknown = ReadMasterAddress(*ReadOne("$-1\r\n").value(), "name").status();
  EXPECT_THAT(unknown.ToString(), HasSubstr("the Sentinel knows no master \"name\""));
  for (const char* bytes : {"*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n$1\r\na\r\n", ":1\r\n", "*2\r\n*0\r\n*0\r\n",
                            "*2\r\n$0\r\n\r\n$1\r\n1\r\n", "*2\r\n$1\r\na\r\n$5\r\n65536\r\n"}) {
    const absl::Status refused = ReadMasterAddress(*ReadOne(bytes).value(), "name").status();
    EXPECT_THAT(refused.ToString(), HasSubstr("otherwise than Redis")) << bytes;
  }
}

TEST(DiscoveryTest, TheSlotsOfACluster) {
  const SlotMap map =
      ReadClusterSlots(*ReadOne("*3\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\na\r\n:1\r\n"
                                "*4\r\n:6\r\n:6\r\n*3\r\n$0\r\n\r\n:2\r\n$1\r\ni\r\n*2\r\n$1\r\nr\r\n:3\r\n"
                                "*3\r\n:7\r\n:9\r\n*2\r\n$1\r\n?\r\n:1\r\n")
                            .value(),
                       {"asked", 9})
          .value();
  EXPECT_EQ(*map.Find(5), (StoreHost{"a", 1}));
  EXPECT_EQ(*map.Find(6), (StoreHost{"asked", 2}));
  EXPECT_EQ(map.Find(7), nullptr);
  for (const char* bytes :
       {"*1\r\n*0\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n", "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n", "*1\r\n*3\r\n:0\r\n:1\r\n:7\r\n"}) {
    const absl::Status refused = ReadClusterSlots(*ReadOne(bytes).value(), {"asked", 9}).status();
    EXPECT_THAT(refused.ToString(), HasSubstr("otherwise than Redis")) << bytes;
  }
  const absl::Status none = ReadClusterSlots(*ReadOne("*0\r\n").value(), {"asked", 9}).status();
  EXPECT_THAT(none.ToString(), HasSubstr("no node of the cluster has slots"));
}

}  // namespace
}  // namespace rnnserve
