// SPDX-License-Identifier: Apache-2.0
// Callers that do to sessions whatever callers and wires do: many sessions at once over streams and Apply, pipelines,
// duplicates, reorderings, two owners, forks, rewinds, cancels, cut and frozen wires. They know what every session must
// hold, and say what is wrong.
//
// Rounds send operations of many sessions at once and then see to each until it is applied, as a caller should: the
// same number with the same content until there is a reply. Scenes stop the engine and so do one thing at a known
// moment.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/server/api/streams/mirror.h"
#include "tests/server/api/streams/session_server.h"

namespace rnnserve {

// How often each thing happened.
using Happenings = std::map<std::string, int64_t>;

class Chaos {
 public:
  struct Size {
    int sessions = 112;
    int rounds = 8;
    int sessions_a_round = 40;
  };
  Chaos(uint64_t seed, Size size);
  ~Chaos();

  // "" or the first thing that was wrong.
  std::string Run();
  const Happenings& happenings() const { return happenings_; }

 private:
  // One way an operation was sent.
  struct Sent {
    size_t index;  // of the burst's changes, or of its reads
    bool is_glance = false;
    std::string request_id;
    std::shared_ptr<StreamClient> stream;  // or
    std::shared_ptr<ApplyClient> apply;
    bool has_timeout = false;
  };
  struct ToSend {
    size_t burst;
    size_t line;
    bool by_apply = false;
    v1::Operation operation;
    Sent sent;
  };
  struct Burst {
    Mirror* mirror;
    std::vector<Moment> moments;  // before, and after each change
    std::vector<Planned> changes;
    std::vector<v1::Operation> reads;
    std::vector<Sent> sent;
  };

  // Rounds: chaos.cc.
  void Round();
  Burst Plan(Mirror& mirror);
  void Script(size_t index, Burst& burst, std::vector<ToSend>& script);
  void Send(std::vector<ToSend>& script, std::vector<Burst>& bursts);
  void DisturbWires();
  void Settle(Burst& burst);
  void SettleChange(Burst& burst, size_t index, const std::vector<v1::OperationReply>& replies);
  void SettleRead(Burst& burst, size_t index, const std::optional<v1::OperationReply>& reply);
  void Adopt(Mirror& mirror, const Planned& planned, const v1::OperationReply& reply);
  static std::optional<v1::OperationReply> Await(const Sent& sent);

  enum class When { kBefore, kDuring, kAfter };

  // Scenes: chaos_scenes.cc.
  void Scene();
  void OtherContent(Mirror& mirror);
  void AskAgain(Mirror& mirror);
  void CancelNumbered(Mirror& mirror, When when);
  void CancelUnnumbered(Mirror& mirror, When when);
  void TimeOut(Mirror& mirror);
  void Unnumbered(Mirror& mirror);
  void Infer(Mirror& mirror);
  void OlderOwner(Mirror& mirror);
  void Join(Mirror& mirror);
  void CloseAndReopen(Mirror& mirror);

  // Both.
  Mirror& AnyMirror() {
    return mirrors_[static_cast<size_t>(dice_.Draw(0, static_cast<int64_t>(mirrors_.size()) - 1))];
  }
  Line& AnyLine() { return *lines_[static_cast<size_t>(dice_.Draw(0, static_cast<int64_t>(lines_.size()) - 1))]; }
  // Opens a session like `mirror`, twice; with its rows as the initial state if they are any.
  void Open(Mirror& mirror);
  void Look(Mirror& mirror);
  std::optional<v1::OperationReply> ApplyOnce(const v1::Operation& operation);
  // A chunk that computes something.
  Planned PlanSteps(const Mirror& mirror, const Moment& before);
  // Until there is a reply, over whatever wire works.
  v1::OperationReply Insist(v1::Operation operation);
  // Checks a first reply, and takes it over.
  void Applied(Mirror& mirror, const Planned& planned, const v1::OperationReply& reply);
  void AwaitApplied(const Mirror& mirror, uint64_t number);
  bool slices_on_poller() const { return slices_on_poller_; }
  void Happened(const std::string& what) { ++happenings_[what]; }
  void Wrong(const Mirror* mirror, const std::string& what);
  // How often these x may be computed; the default is exactly once for those of applied operations.
  void MayCompute(const Planned& planned, int more);
  void CheckComputed();
  void CheckAllStates();

  Dice dice_;
  const Size size_;
  const bool slices_on_poller_;
  const bool hands_over_;  // streams end again and again
  SessionServer server_;
  std::vector<std::unique_ptr<Line>> lines_;
  CallerConnection control_;  // never disturbed
  std::deque<Mirror> mirrors_;
  std::unordered_map<float, int> applied_;  // x -> 1 if its operation was applied
  std::unordered_map<float, int> excused_;  // x -> computations that may have been thrown away
  Happenings happenings_;
  std::string wrong_;
  int64_t next_request_ = 0;
};

}  // namespace rnnserve
