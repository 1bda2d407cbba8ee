// SPDX-License-Identifier: Apache-2.0
// Which server of several a call or a session goes to. The scenes are those of the Python client's test.
#include "client/cpp/servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/field_error.h"
#include "client/cpp/lookup.h"
#include "client/cpp/status.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/status.h"

namespace rnnserve::client {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using List = std::vector<std::string>;

const TryTime kStart = TryTime(std::chrono::hours(1));

nlohmann::json Scenario() {
  std::ifstream file(RNNSERVE_BALANCING_SCENARIO);
  return nlohmann::json::parse(file);
}

absl::Status Refusal(const nlohmann::json& step) {
  if (step.contains("reason")) return WithReason(absl::UnavailableError(""), step["reason"].get<std::string>());
  if (!step.contains("retry_after")) return absl::UnavailableError("");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(step["retry_after"].get<int>());
  google::rpc::Status details;
  details.add_details()->PackFrom(retry);
  return FromGrpc(grpc::Status(grpc::UNAVAILABLE, "", details.SerializeAsString()));
}

void Play(const nlohmann::json& scene) {
  const auto balancing = scene.value("pick_first", false) ? LoadBalancing::kPickFirst : LoadBalancing::kSpread;
  Servers servers(scene["servers"].get<List>(), balancing, Servers::Begin::kInOrder);
  for (const nlohmann::json& step : scene["steps"]) {
    const TryTime now = kStart + milliseconds(static_cast<int64_t>(step.value("at", 0.0) * 1000));
    if (step.contains("refuses")) {
      servers.Refused(step["refuses"].get<std::string>(), Refusal(step), now);
    } else if (step.contains("takes")) {
      servers.Took(step["takes"].get<std::string>());
    } else if (step.contains("ends")) {
      servers.Ended(step["ends"].get<std::string>());
    } else if (step.contains("list")) {
      servers.Set(step["list"].get<List>());
    } else if (step.contains("order")) {
      EXPECT_EQ(servers.ForCall(now), step["order"].get<List>()) << step;
    } else if (step.contains("calls")) {
      for (const nlohmann::json& expected : step["calls"]) {
        const std::string chosen = servers.BeginCall(now).front();
        EXPECT_EQ(chosen, expected.get<std::string>()) << step;
        if (step.value("end", true)) servers.Ended(chosen);
      }
    }
  }
}

TEST(ServersTest, ScenesOfCalls) {
  const nlohmann::json scenario = Scenario();
  ASSERT_THAT(scenario["calls"], SizeIs(Ge(6u)));
  for (const nlohmann::json& scene : scenario["calls"]) {
    SCOPED_TRACE(scene["name"].get<std::string>());
    Play(scene);
  }
}

TEST(ServersTest, TheHashOfNamesIsThatOfBothClients) {
  const nlohmann::json scenario = Scenario();
  ASSERT_THAT(scenario["scores"], SizeIs(Ge(4u)));
  for (const nlohmann::json& score : scenario["scores"]) {
    EXPECT_EQ(Score(score[0].get<std::string>(), score[1].get<std::string>()),
              std::stoull(score[2].get<std::string>(), nullptr, 16))
        << score;
  }
}

TEST(ServersTest, AThousandCallsAndAThousandSessionsAreEven) {
  const List addresses = {"a:1", "b:1", "c:1"};
  Servers servers(addresses, LoadBalancing::kSpread);
  std::map<std::string, int> calls, unnamed, named;
  for (int k = 0; k < 1000; ++k) {
    const std::string chosen = servers.BeginCall(kStart).front();
    servers.Ended(chosen);
    ++calls[chosen];
    ++unnamed[OrderForSession(addresses, "", std::to_string(k)).front()];
    ++named[OrderForSession(addresses, "call-" + std::to_string(k), "").front()];
  }
  for (const auto& counts : {calls, unnamed, named}) {
    EXPECT_THAT(counts, SizeIs(3));
    for (const auto& [address, count] : counts) EXPECT_THAT(count, AllOf(Ge(300), Le(366))) << address;
  }
}

TEST(ServersTest, ClientsBeginWithDifferentServers) {
  std::set<std::string> firsts;
  for (int k = 0; k < 200; ++k) {
    firsts.insert(Servers({"a:1", "b:1", "c:1"}, LoadBalancing::kSpread).ForCall(kStart).front());
  }
  EXPECT_THAT(firsts, SizeIs(3));
}

// Of a server that was killed: they do not all meet at the same one.
TEST(ServersTest, SessionsWithoutANameGoOnAtDifferentServers) {
  std::set<std::string> seconds;
  for (int k = 0; k < 100; ++k) {
    const List order = OrderForSession({"a:1", "b:1", "c:1"}, "", std::to_string(k));
    if (order[0] == "a:1") seconds.insert(order[1]);
  }
  EXPECT_THAT(seconds, ElementsAre("b:1", "c:1"));
}

TEST(LookupTest, AddressesByComma) {
  EXPECT_THAT(SplitAddresses({"a:1, b:1", "c:1", "a:1"}), ElementsAre("a:1", "b:1", "c:1"));
  EXPECT_THAT(SplitAddresses({"a:1,"}), ElementsAre("a:1", ""));
  EXPECT_THAT(SplitAddresses({}), IsEmpty());
}

TEST(LookupTest, WhichTargetsAreLookedUp) {
  EXPECT_EQ(HostAndPort("rnnserve:50051"), std::pair(std::string("rnnserve"), std::string("50051")));
  EXPECT_TRUE(HostAndPort("dns:///rnnserve:50051").has_value());
  for (const char* target : {"127.0.0.1:1", "[::1]:1", "unix:/tmp/x", "unix:x:1", "localhost:1", "ipv4:1.2.3.4:5",
                             "xds:///a:1", "nowhere"}) {
    EXPECT_FALSE(HostAndPort(target).has_value()) << target;
  }
}

TEST(LookupTest, NamesAreLookedUpAgain) {
  List answer = {"10.0.0.1", "10.0.0.2"};
  Lookup lookup({"pods:7", "10.9.9.9:1"}, [&](const std::string& host, const std::string& port) {
    EXPECT_EQ(host + port, "pods7");
    return answer;
  });
  EXPECT_THAT(lookup.Look(), ElementsAre("10.0.0.1:7", "10.0.0.2:7", "10.9.9.9:1"));
  EXPECT_EQ(lookup.NameOf("10.0.0.2:7"), "pods:7") << "what its certificate says";
  EXPECT_EQ(lookup.NameOf("10.9.9.9:1"), "");
  answer = {"10.0.0.2", "fd00::1"};
  EXPECT_THAT(lookup.Look(), ElementsAre("10.0.0.2:7", "[fd00::1]:7", "10.9.9.9:1"));
  answer = {};
  EXPECT_THAT(lookup.Look(), SizeIs(3)) << "what is known stays";
  answer = {"10.0.0.2"};
  EXPECT_THAT(lookup.Look(), ElementsAre("pods:7", "10.9.9.9:1")) << "gRPC looks up a name with one address";
}

}  // namespace
}  // namespace rnnserve::client
