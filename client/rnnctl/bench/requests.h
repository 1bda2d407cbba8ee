// SPDX-License-Identifier: Apache-2.0
// The requests of a load test, made and serialised once: for each entry of the mix several bodies of different content,
// and of the lengths that its range asks for. Which one comes next is drawn from a seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/rnnctl/bench/plan.h"

namespace rnnserve::rnnctl::bench {

struct Requests {
  // The bodies first .. first + count - 1 share one entry's weight.
  struct Group {
    double weight;
    size_t first;
    size_t count;
  };
  std::vector<std::string> bodies;  // serialised InferRequests; of sessions what ChunkBody gives
  std::vector<int64_t> steps;       // of each body
  std::string open;                 // of sessions: what OpenBody gives
  std::vector<Group> groups;        // one for each entry of the mix
};

// Asks the server for each model's signature, and shows it each operator's weights once. Without a client (--echo) the
// fingerprint is one of zeros. Errors are the server's, or say that the bodies would take too much memory.
absl::StatusOr<Requests> PrepareRequests(const Plan& plan, client::Client* client);

// Lengths spread evenly from the shortest to the longest, at most `count` different ones, ascending.
std::vector<int64_t> SpreadSteps(int64_t shortest, int64_t longest, int64_t count);

class RequestPicker {
 public:
  RequestPicker(const std::vector<Requests::Group>& groups, uint64_t seed);
  size_t Next();  // an index of bodies

 private:
  const std::vector<Requests::Group> groups_;
  std::mt19937_64 random_;
  std::discrete_distribution<size_t> group_;
};

}  // namespace rnnserve::rnnctl::bench
