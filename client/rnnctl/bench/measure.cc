// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/measure.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "client/cpp/lookup.h"
#include "client/rnnctl/bench/load.h"
#include "client/rnnctl/bench/requests.h"
#include "client/rnnctl/bench/sessions/find.h"
#include "client/rnnctl/bench/sessions/session_sender.h"
#include "client/rnnctl/call.h"
#include "client/rnnctl/interrupt.h"
#include "client/rnnctl/progress_line.h"

namespace rnnserve::rnnctl::bench {
namespace {

// Beyond it --find does not look.
constexpr int64_t kMostFound = 1 << 17;

std::string Describe(const MixEntry& entry) {
  const std::string steps = entry.min_steps == entry.max_steps ? absl::StrCat(entry.max_steps)
                                                               : absl::StrCat(entry.min_steps, " to ", entry.max_steps);
  const std::string target = entry.model
                                 ? absl::StrCat("model ", entry.model->name,
                                                entry.model->version ? absl::StrCat(":", *entry.model->version) : "")
                                 : absl::StrCat(entry.op, " hidden ", entry.hidden, " input ", entry.input);
  return absl::StrCat(target, ", steps ", steps, ", rows ", entry.rows);
}

std::string Describe(const Plan& plan) {
  std::vector<std::string> entries;
  for (const MixEntry& entry : plan.mix) entries.push_back(Describe(entry));
  std::string text = absl::StrJoin(entries, " | ");
  if (!plan.sessions) return text;
  const SessionPlan& sessions = *plan.sessions;
  absl::StrAppend(&text, "; sessions over ", sessions.streams, sessions.streams == 1 ? " stream" : " streams");
  if (sessions.operations > 1) absl::StrAppend(&text, ", up to ", sessions.operations, " operations a message");
  if (sessions.cadence.count() > 0) {
    absl::StrAppend(&text, ", a chunk every ", absl::FormatDuration(absl::FromChrono(sessions.cadence)),
                    sessions.irregular ? " on average" : "");
  }
  if (sessions.life > 0) absl::StrAppend(&text, ", of ", sessions.life, " chunks each");
  return text;
}

// What the levels of a plan share.
struct Bench {
  const Plan& plan;
  const Requests& requests;
  InterruptGuard interrupt = {};
  ProgressLine line;
  RequestPicker picker{requests.groups, plan.seed};

  bool interrupted() const { return interrupt.interrupted(); }

  Level Run(Sender& caller, const Load& load) {
    const Hooks hooks = {
        [&] { return interrupted(); },
        [&](int64_t window, const Tally& tally) { line.Show(ShowWindow(load, window, tally)); },
        [&] { return picker.Next(); },
    };
    return RunLevel(caller, load, plan.stopping, hooks);
  }
};

absl::Status RunCalls(Bench& bench, const CallerOptions& options, Report& report) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Sender> caller, MakeGrpcCaller(options, bench.requests.bodies));
  for (const Load& load : bench.plan.loads) {
    report.levels.push_back(bench.Run(*caller, load));
    if (bench.interrupted()) break;
  }
  return absl::OkStatus();
}

absl::Status RunSessionLevel(Bench& bench, SessionSender& caller, const Load& load, Report& report) {
  const auto interrupted = [&] { return bench.interrupted(); };
  bench.line.Show(absl::StrCat("opening ", load.concurrency, " sessions"));
  absl::Status opened = caller.Open(load.slots(), interrupted);
  if (!opened.ok() || bench.interrupted()) return opened;
  report.levels.push_back(bench.Run(caller, load));
  report.levels.back().opened = caller.TakeOpened();
  return absl::OkStatus();
}

// Levels in the order in which they were tried.
absl::Status FindSessions(Bench& bench, SessionSender& caller, Report& report) {
  absl::Status status;
  const Time target = *bench.plan.sessions->find;
  const auto holds = [&](int64_t sessions) -> std::optional<bool> {
    Load load = bench.plan.loads[0];
    load.concurrency = sessions;
    status = RunSessionLevel(bench, caller, load, report);
    if (!status.ok() || bench.interrupted()) return std::nullopt;
    return IsHeld(report.levels.back(), target);
  };
  report.held = HeldSessions{FindMost(bench.plan.loads[0].concurrency, kMostFound, holds), target};
  return status;
}

absl::Status RunSessions(Bench& bench, const CallerOptions& of_calls, Report& report) {
  const SessionPlan& plan = *bench.plan.sessions;
  ASSIGN_OR_RETURN(const std::unique_ptr<SessionSender> caller,
                   MakeSessionSender({.addresses = of_calls.addresses,
                                      .client = of_calls.client,
                                      .slots = plan.find ? static_cast<size_t>(kMostFound) : of_calls.slots,
                                      .streams = plan.streams,
                                      .operations = plan.operations,
                                      .life = plan.life,
                                      .echo = bench.plan.echo,
                                      .check = bench.plan.check},
                                     bench.requests));
  absl::Status status;
  if (plan.find) {
    status = FindSessions(bench, *caller, report);
  } else {
    for (const Load& load : bench.plan.loads) {
      status = RunSessionLevel(bench, *caller, load, report);
      if (!status.ok() || bench.interrupted()) break;
    }
  }
  if (!status.ok()) return status;
  // After an interruption as well: open sessions would keep a draining server waiting. A second Ctrl-C ends the
  // process.
  bench.line.Show("closing the sessions");
  return caller->CloseAll({});
}

}  // namespace

absl::StatusOr<Report> Measure(const Arguments& arguments, Plan plan, Streams& streams) {
  ASSIGN_OR_RETURN(const client::ClientOptions options, ClientOptionsFrom(arguments));
  const std::vector<std::string> addresses = client::SplitAddresses({ServerAddress(arguments)});
  if (plan.sessions) plan.sessions->streams = std::max(plan.sessions->streams, static_cast<int64_t>(addresses.size()));
  absl::StatusOr<Requests> requests = plan.echo ? PrepareRequests(plan, nullptr) : Requests();
  for (const std::string& address : addresses) {
    if (plan.echo || !requests.ok()) break;
    ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client, ConnectTo(address, options));
    requests = PrepareRequests(plan, client.get());  // the same for each server
  }
  if (!requests.ok()) return requests.status();
  CallerOptions caller_options = {addresses, options, 1, !plan.echo, plan.check};
  for (const Load& load : plan.loads) caller_options.slots = std::max(caller_options.slots, load.slots());

  Bench bench = {.plan = plan, .requests = *requests, .line = ProgressLine(streams.err)};
  Report report = {Describe(plan), {}, {}};
  const absl::Status ran =
      plan.sessions ? RunSessions(bench, caller_options, report) : RunCalls(bench, caller_options, report);
  if (!ran.ok()) return ran;
  return report;
}

}  // namespace rnnserve::rnnctl::bench
