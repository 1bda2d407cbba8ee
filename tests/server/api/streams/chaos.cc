// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/streams/chaos.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

constexpr size_t kLines = 4;
constexpr uint64_t kKept = 16;

// Streams are handed over again and again while messages are on their way.
constexpr absl::Duration kStreamAge = absl::Milliseconds(30);

SessionServer::Setup SetupOf(bool slices_on_poller, bool hands_over) {
  SessionServer::Setup setup;
  if (hands_over) setup.server.streams.max_age = kStreamAge;
  setup.slices_on_poller = slices_on_poller;
  return setup;
}

}  // namespace

Chaos::Chaos(uint64_t seed, Size size)
    : dice_(seed),
      size_(size),
      slices_on_poller_(seed % 2 == 1),
      hands_over_(seed % 5 == 2),  // few: the scenes that these leave out have to happen, too
      server_(SetupOf(slices_on_poller_, hands_over_)),
      control_(server_.server->ports()[0]) {
  for (size_t k = 0; k < kLines; ++k) lines_.push_back(std::make_unique<Line>(server_.server->ports()[0]));
}

Chaos::~Chaos() { server_.engine.Release(); }

std::string Chaos::Run() {
  for (int k = 0; k < size_.sessions; ++k) {
    Mirror& mirror = mirrors_.emplace_back();
    mirror.now.rows = Rows(static_cast<size_t>(dice_.Draw(1, 3)), Memory(kRemembered));
    Open(mirror);
  }
  for (int round = 0; round < size_.rounds && wrong_.empty(); ++round) {
    Round();
    for (int k = 0; k < 6 && wrong_.empty(); ++k) Scene();
  }
  if (wrong_.empty()) CheckAllStates();
  if (wrong_.empty()) CheckComputed();
  happenings_["steps computed"] += server_.engine.steps();
  happenings_["slices shared by sequences"] += server_.engine.shared_slices();
  return wrong_;
}

void Chaos::Round() {
  std::vector<Mirror*> chosen;
  for (Mirror& mirror : mirrors_) chosen.push_back(&mirror);
  dice_.Shuffle(chosen);
  chosen.resize(std::min(chosen.size(), static_cast<size_t>(size_.sessions_a_round)));
  std::vector<Burst> bursts;
  std::vector<std::vector<ToSend>> scripts;
  for (Mirror* mirror : chosen) {
    bursts.push_back(Plan(*mirror));
    Script(bursts.size() - 1, bursts.back(), scripts.emplace_back());
  }
  // All sessions at once, each in its own order.
  std::vector<size_t> turns;
  for (size_t k = 0; k < scripts.size(); ++k) turns.insert(turns.end(), scripts[k].size(), k);
  dice_.Shuffle(turns);
  std::vector<size_t> at(scripts.size());
  std::vector<ToSend> all;
  for (const size_t turn : turns) all.push_back(std::move(scripts[turn][at[turn]++]));
  Send(all, bursts);
  if (dice_.Chance(60)) DisturbWires();
  for (Burst& burst : bursts) {
    if (wrong_.empty()) Settle(burst);
  }
}

Chaos::Burst Chaos::Plan(Mirror& mirror) {
  Burst burst{&mirror, {mirror.now}, {}, {}, {}};
  for (int64_t k = dice_.Draw(1, 4); k > 0; --k) {
    burst.changes.push_back(PlanChange(dice_, mirror, burst.moments.back()));
    burst.moments.push_back(burst.changes.back().after);
  }
  return burst;
}

// What is sent for one session, in order.
void Chaos::Script(size_t index, Burst& burst, std::vector<ToSend>& script) {
  const size_t home = static_cast<size_t>(dice_.Draw(0, kLines - 1));
  const auto add = [&](size_t change, size_t line, bool by_apply) {
    ToSend& one = script.emplace_back(ToSend{index, line, by_apply, burst.changes[change].operation, {}});
    one.sent.index = change;
  };
  const int64_t style = dice_.Draw(1, 100);
  for (size_t k = 0; k < burst.changes.size(); ++k) {
    const bool by_apply = style > 50 && style <= 60;
    const size_t line = style > 60 && style <= 72 ? (home + k) % kLines : home;  // two owners and more
    add(k, line, by_apply);
    if (style > 72 && style <= 82) {  // duplicates
      for (int64_t copies = dice_.Draw(1, 2); copies > 0; --copies) {
        add(k, dice_.Chance(60) ? home : static_cast<size_t>(dice_.Draw(0, kLines - 1)), dice_.Chance(30));
      }
      Happened("sent more than once");
    }
    if (style > 90 && dice_.Chance(50)) {  // a time limit of its own
      google::protobuf::Duration& timeout = *script.back().operation.mutable_timeout();
      timeout.set_nanos(static_cast<int32_t>(dice_.Draw(1, 2'000'000)));
      script.back().sent.has_timeout = true;
      MayCompute(burst.changes[k], 1);
    }
    if (dice_.Chance(25)) {  // reads
      v1::Operation read;
      read.set_session(burst.mirror->key);
      const int64_t kind = dice_.Draw(1, 100);
      const std::string id = absl::StrCat("g", ++next_request_);
      if (kind <= 40) {
        read.mutable_get_state();
      } else if (kind <= 75) {
        read.mutable_checkpoint()->set_name(id);
      } else {
        read.mutable_fork()->set_request_id(id);
        read.mutable_fork()->set_count(static_cast<int32_t>(dice_.Draw(1, 2)));
      }
      script.push_back(ToSend{index, home, false, read, {}});
      script.back().sent.index = burst.reads.size();
      script.back().sent.is_glance = true;
      burst.reads.push_back(read);
    }
  }
  if (style > 82 && style <= 90) {
    dice_.Shuffle(script);
    Happened("sent in another order");
  }
  if (style > 60 && style <= 72 && burst.changes.size() > 1) Happened("two owners");
}

void Chaos::Send(std::vector<ToSend>& script, std::vector<Burst>& bursts) {
  std::vector<std::vector<v1::Operation>> messages(kLines);
  std::vector<std::shared_ptr<StreamClient>> streams(kLines);  // that the messages are for
  const auto flush = [&](size_t line) {
    if (messages[line].empty()) return;
    streams[line]->Send(messages[line]);
    if (messages[line].size() > 1) Happened("messages of several operations");
    messages[line].clear();
  };
  for (ToSend& one : script) {
    one.sent.request_id = absl::StrCat(++next_request_);
    one.operation.set_request_id(one.sent.request_id);
    if (one.by_apply) {
      one.sent.apply = lines_[one.line]->Apply(one.operation);
      Happened("sent by Apply");
    } else {
      // A stream that breaks loses the whole message; the operation is then sent again when it is settled.
      if (messages[one.line].empty() || dice_.Chance(30)) flush(one.line);
      if (messages[one.line].empty()) streams[one.line] = lines_[one.line]->stream();
      one.sent.stream = streams[one.line];
      messages[one.line].push_back(one.operation);
      Happened("sent by Stream");
    }
    bursts[one.burst].sent.push_back(one.sent);
    if (dice_.Chance(1)) {
      flush(one.line);
      DisturbWires();
    }
  }
  for (size_t line = 0; line < kLines; ++line) flush(line);
}

void Chaos::DisturbWires() {
  Line& line = AnyLine();
  switch (dice_.Draw(1, 4)) {
    case 1:
      line.stream()->Cancel();
      line.LeaveStream();
      return Happened("streams cancelled");
    case 2:
      line.Cut();
      return Happened("wires cut");
    case 3:
      line.Freeze();
      return Happened("wires half-open");
    default:
      line.LeaveStream();  // the thread that waits for it still does
      return Happened("a stream beside an older one");
  }
}

std::optional<v1::OperationReply> Chaos::Await(const Sent& sent) {
  return sent.stream != nullptr ? sent.stream->Await(sent.request_id) : sent.apply->Await();
}

void Chaos::Settle(Burst& burst) {
  std::vector<std::vector<v1::OperationReply>> replies(burst.changes.size());
  std::vector<std::optional<v1::OperationReply>> reads(burst.reads.size());
  for (const Sent& sent : burst.sent) {
    std::optional<v1::OperationReply> reply = Await(sent);
    if (!reply) {
      Happened("replies lost");
    } else if (sent.is_glance) {
      reads[sent.index] = std::move(reply);
    } else {
      replies[sent.index].push_back(*std::move(reply));
    }
  }
  for (size_t k = 0; k < burst.changes.size() && wrong_.empty(); ++k) SettleChange(burst, k, replies[k]);
  for (size_t k = 0; k < burst.reads.size() && wrong_.empty(); ++k) SettleRead(burst, k, reads[k]);
  if (wrong_.empty() && dice_.Chance(25)) Look(*burst.mirror);
}

void Chaos::SettleChange(Burst& burst, size_t index, const std::vector<v1::OperationReply>& replies) {
  const Planned& planned = burst.changes[index];
  std::optional<v1::OperationReply> first;
  for (const v1::OperationReply& reply : replies) {
    const std::string reason = ReasonOf(reply.status());
    if (reply.status().code() == 0) {
      if (first && !IsSame(*first, reply)) return Wrong(burst.mirror, "two replies of one number differ");
      if (first) Happened("the same reply twice");
      first = reply;
    } else if (reason == "NUMBER_REUSED" || reason == "NUMBER_TOO_OLD" || reason == "SESSION_ENDED") {
      return Wrong(burst.mirror, absl::StrCat(reason, ": ", reply.status().message()));
    } else {
      Happened(absl::StrCat("refused: ", reason.empty() ? absl::StrCat(reply.status().code()) : reason));
    }
  }
  if (!first) {
    first = Insist(planned.operation);
    Happened(first->repeated_reply() ? "resent, and had been applied" : "resent, and was applied");
  }
  Applied(*burst.mirror, planned, *first);
}

void Chaos::SettleRead(Burst& burst, size_t index, const std::optional<v1::OperationReply>& reply) {
  const v1::Operation& read = burst.reads[index];
  Mirror& mirror = *burst.mirror;
  if (!reply && !read.has_fork()) return;
  const auto moment = [&](uint64_t number) -> const Moment* {
    const uint64_t first = burst.moments.front().number;
    if (number < first || number - first >= burst.moments.size()) return nullptr;
    return &burst.moments[number - first];
  };
  v1::OperationReply told = reply ? *reply : Insist(read);
  if (told.status().code() != 0) return Happened(absl::StrCat("a read was refused: ", ReasonOf(told.status())));
  const uint64_t number = read.has_fork()         ? told.fork().number()
                          : read.has_checkpoint() ? told.checkpoint().number()
                                                  : told.get_state().number();
  const Moment* const seen = moment(number);
  if (seen == nullptr) return Wrong(&mirror, absl::StrCat("a read saw number ", number));
  if (read.has_get_state()) {
    if (std::string mistake = Mistake(*seen, told.get_state()); !mistake.empty()) return Wrong(&mirror, mistake);
    return Happened("states seen in a stream");
  }
  if (read.has_checkpoint()) {
    mirror.checkpoints[read.checkpoint().name()] = *seen;
    return Happened("checkpoints");
  }
  if (told.fork().sessions_size() != read.fork().count()) return Wrong(&mirror, "another number of forks");
  const v1::OperationReply again = Insist(read);  // its request_id makes it repeatable
  if (again.fork().SerializeAsString() != told.fork().SerializeAsString())
    return Wrong(&mirror, "a fork was made twice");
  for (const std::string& key : told.fork().sessions()) {
    Mirror& fork = mirrors_.emplace_back();
    fork.key = key;
    fork.now = *seen;
    if (dice_.Chance(50)) Look(fork);
    Happened("forks");
  }
}

void Chaos::Applied(Mirror& mirror, const Planned& planned, const v1::OperationReply& reply) {
  if (std::string mistake = Mistake(planned, reply); !mistake.empty()) return Wrong(&mirror, mistake);
  for (const float x : planned.values) applied_[x] = 1;
  mirror.now = planned.after;
  mirror.kept[planned.after.number] = {planned, reply};
  mirror.kept.erase(mirror.kept.begin(),
                    mirror.kept.lower_bound(planned.after.number - std::min(planned.after.number, kKept - 1)));
  const v1::Operation& operation = planned.operation;
  Happened(operation.has_chunk()         ? "chunks applied"
           : operation.has_reset()       ? "resets applied"
           : operation.has_set_state()   ? "states set"
           : operation.has_select_rows() ? "rows selected"
           : operation.has_rewind()      ? "rewinds applied"
                                         : "sessions closed");
}

// The same number with the same content, until it is known to be applied.
v1::OperationReply Chaos::Insist(v1::Operation operation) {
  v1::OperationReply reply;
  for (int tries = 0; tries < 100; ++tries) {
    operation.set_request_id(absl::StrCat(++next_request_));
    std::optional<v1::OperationReply> came;
    Line& line = AnyLine();
    if (dice_.Chance(30)) {
      came = line.Apply(operation)->Await();
    } else {
      const std::shared_ptr<StreamClient> stream = line.stream();
      stream->Send({operation});
      came = stream->Await(operation.request_id());
    }
    if (!came) continue;
    reply = *std::move(came);
    if (reply.status().code() == 0) return reply;
    const std::string reason = ReasonOf(reply.status());
    // An older stream of ours; late copies of operations that a newer one took over; one with a timeout, which was
    // joined and did not make it.
    const bool again = reason == "OLDER_OWNER" || reason == "TOO_MANY_IN_FLIGHT" || reason == "PREVIOUS_FAILED" ||
                       reply.status().code() == grpc::DEADLINE_EXCEEDED;
    if (!again) return reply;
    if (reason == "OLDER_OWNER") line.LeaveStream();
  }
  return reply;
}

}  // namespace rnnserve
