// SPDX-License-Identifier: Apache-2.0
// Clients, connections that break, a server of real sessions on a fake clock, and an engine that takes its time and
// sometimes fails. One seed, one run, always the same.
//
//   World world(seed, Fault::kNone);
//   std::optional<std::string> wrong = world.Run();     // nothing: all answers were as the oracle says
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "tests/server/sessions/contract/session_fixture.h"
#include "tests/server/sessions/contract/simulator/faulty_sessions.h"
#include "tests/server/sessions/contract/simulator/oracle.h"

namespace rnnserve::sim {

// How often things happened that the clauses are about; the campaign wants each of them.
using Counters = std::map<std::string, int64_t>;

class World {
 public:
  World(uint64_t seed, Fault fault, Counters* counters);
  std::optional<std::string> Run();

 private:
  // What a session remembers, in two rows that must never differ.
  struct Rows final : State {
    std::vector<uint64_t> log;
  };
  // One client of one session. An honest one numbers its operations, repeats and resumes, and says nothing else.
  struct Client {
    size_t session = 0;
    bool honest = false;
    uint64_t connection = 0;                           // 0: none
    uint64_t next = 1;                                 // number to send
    uint64_t owner_epoch = Session::kFirstOwnerEpoch;  // as it was told last
    bool tells_epoch = false;
  };
  struct Job {  // what has the lease
    int request = 0;
    uint64_t content = 0;
    bool closes = false;
    bool numbered = false;
    uint64_t connection = 0;
    std::optional<Lease> lease;
  };
  struct Subject {
    SessionPtr session;
    std::string key;
    std::unique_ptr<Oracle> oracle;
    std::map<int, Job> jobs;  // one at most, unless something is wrong
    bool honest = true;
  };
  struct Asked {  // by request
    size_t session = 0;
    size_t client = 0;
    bool resubmitted = false;
  };
  struct Event {
    absl::Duration at;
    int order;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(other.at, other.order) < std::tie(at, order); }
  };

  // Chance.
  int64_t Draw(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  bool Chance(int percent) { return Draw(1, 100) <= percent; }
  void Later(absl::Duration delay, std::function<void()> run);
  void Count(const std::string& what) { ++(*counters_)[what]; }
  void Wrong(const std::string& text);

  // The world.
  void OpenSessions();
  void Act(size_t client);
  void Send(size_t client, Request request, int delay_ms);
  void Connect(Client& client);
  void Disconnect(Client& client);
  void Finish();
  void ProbeKeys();
  void GlanceAt(size_t session);
  // An Open for the session of that name; the client goes on with the epoch it is told.
  void AttachByName(size_t client);

  // The server.
  void Deliver(size_t session, uint64_t connection, const Request& request, bool to_oracle);
  void Granted(size_t session, const Request& request, uint64_t connection, Lease lease);
  void EngineHalfWay(size_t session, int request);
  void EngineDone(size_t session, int request);
  void End(size_t session, int request, bool ok, absl::StatusCode failure);
  void Pass(absl::Duration time);
  void Stop();
  void Sweep();
  absl::Duration Age() const;

  // The oracle.
  void Told(int request, const Outcome& outcome);
  void Compare(size_t session);
  void CountRequest(const Subject& subject, const Request& request);

  const Fault fault_;
  Counters* const counters_;
  std::mt19937_64 random_;
  FakeClock clock_;
  int window_;
  int max_in_flight_;
  absl::Duration idle_timeout_;
  MemorySessions::Options options_;
  std::unique_ptr<MemorySessions> real_;
  std::unique_ptr<FaultySessions> sessions_;
  std::string other_boot_key_;
  std::vector<Subject> subjects_;
  std::vector<Client> clients_;
  std::map<uint64_t, std::map<size_t, Attachment>> attachments_;  // of each connection, by session
  std::map<int, Asked> asked_;
  std::map<int, sim::Told> told_;
  std::priority_queue<Event> events_;
  int events_made_ = 0;
  int requests_made_ = 0;
  int opens_made_ = 0;
  uint64_t connections_made_ = 0;
  absl::Duration age_, swept_at_;
  bool quiet_ = false;  // no more faults: everything comes to its end
  std::optional<std::string> wrong_;
};

}  // namespace rnnserve::sim
