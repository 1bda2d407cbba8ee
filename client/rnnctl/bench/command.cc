// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/command.h"

#include <unistd.h>

#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/rnnctl/bench/interrupt.h"
#include "client/rnnctl/bench/load.h"
#include "client/rnnctl/bench/plan.h"
#include "client/rnnctl/bench/report.h"
#include "client/rnnctl/bench/requests.h"
#include "client/rnnctl/call.h"

namespace rnnserve::rnnctl {
namespace bench {
namespace {

constexpr std::array kFlags = {
    Flag{
        .name = "concurrency",
        .value = "N",
        .help = "closed loop: callers that each wait for their answer; 64, 1,8,64, 1:64 (doubling), 4:16:4; default 1"},
    Flag{.name = "rate",
         .value = "R",
         .help = "open loop: requests a second, whether or not answers come; lists and ranges as above"},
    Flag{.name = "max-in-flight", .value = "N", .help = "with --rate: calls under way at most; default 1024"},
    Flag{.name = "model", .value = "NAME[:VERSION]", .help = "send to a model that the server holds"},
    Flag{.name = "op", .value = "TYPE", .help = "send an operator with random weights: LSTM (default), GRU, RNN"},
    Flag{.name = "hidden", .value = "N", .help = "units of --op; default 128"},
    Flag{.name = "input", .value = "N", .help = "columns of X of --op; default: as --hidden"},
    Flag{.name = "opset", .value = "N", .help = "the opset whose version of --op is meant; default 22"},
    kAttrFlag,
    kCastFlag,
    Flag{.name = "inline", .value = "", .help = "send the weights with every request, not only with the first"},
    Flag{.name = "steps", .value = "T", .help = "steps of each sequence, or SHORTEST:LONGEST; default 32"},
    Flag{.name = "rows", .value = "N", .help = "rows of each request; default 1"},
    Flag{.name = "mix", .value = "FILE", .help = "JSON list of what to send in which proportion; see above"},
    Flag{.name = "outputs", .value = "NAMES", .help = "outputs wanted, by comma: Y,Y_h; default: the operator's own"},
    kEngineFlag,
    kDeterministicFlag,
    kReducedFlag,
    Flag{.name = "warm-up", .value = "TIME", .help = "before anything counts; default 500ms"},
    Flag{.name = "window", .value = "TIME", .help = "of a window; it goes on until it holds ten answers; default 1s"},
    Flag{.name = "stability",
         .value = "SHARE",
         .help = "stop when three windows agree in calls/s and mean latency within this; default 10%"},
    Flag{.name = "max-windows", .value = "N", .help = "stop after so many windows that do not agree; default 30"},
    Flag{.name = "duration", .value = "TIME", .help = "measure exactly this long instead"},
    Flag{.name = "requests", .value = "N", .help = "measure so many answers instead"},
    Flag{.name = "check",
         .value = "TOLERANCE",
         .help = "compare each answer with the first to the same request: exact, or such as 1e-5"},
    Flag{.name = "echo", .value = "", .help = "replies are no results: the server only moves bytes"},
    Flag{.name = "seed", .value = "N", .help = "of weights, data, order and arrivals; default 1"},
    Flag{.name = "json", .value = "", .help = "print JSON"},
    Flag{.name = "csv", .value = "", .help = "print CSV, a row for each level"},
    Flag{.name = "histogram", .value = "", .help = "print the latencies' distribution as well"},
    kServerFlag,
    kTimeoutFlag,
    kMaxReplyFlag};

constexpr std::string_view kText =
    R"(Measures a server under load: calls a second, latency percentiles, how long requests queued and were computed as
the server tells, the largest batch, and what the client itself cost.

A closed loop (--concurrency) tells how much a server can do. An open loop (--rate) tells what callers see who do not
wait for each other: requests are due at random (Poisson) moments, and latency counts from the moment a request was
due, so a stall is charged to all who waited through it.

Weights and data are random. An operator's weights travel once; later requests name their fingerprint. Each entry sends
8 different contents, a range of lengths up to 64 different lengths. A mix is a file such as

  [{"weight": 3, "model": "vad:2", "steps": [1, 400]},
   {"weight": 1, "op": "GRU", "hidden": 256, "input": 80, "steps": 32, "rows": 4,
    "attributes": ["linear_before_reset=1"]}]

Ctrl-C ends the measurement and prints what there is. Exit code 1 also if no call of a level ended well or --check
found a wrong answer; refused calls among others are counted, not fatal.

Examples:
  rnnctl bench --op LSTM --hidden 128 --steps 32 --concurrency 1,8,64
  rnnctl bench --model vad --steps 1:400 --rate 2000 --duration 30s --histogram
  rnnctl bench --mix mix.json --concurrency 64 --check 1e-5
  rnnctl bench --rate 1000:8000 --csv > rates.csv)";

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
  return absl::StrJoin(entries, " | ");
}

// A line on the terminal that rewrites itself; nothing where standard error is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::ostream& err) : err_(err), shown_(&err == &std::cerr && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (shown_) err_ << "\r\033[K" << std::flush;
  }
  void Show(const std::string& text) {
    if (shown_) err_ << "\r\033[K" << text << std::flush;
  }

 private:
  std::ostream& err_;
  const bool shown_;
};

absl::StatusOr<Report> Measure(const Arguments& arguments, const Plan& plan, Streams& streams) {
  std::unique_ptr<client::Client> client;
  if (!plan.echo) {
    absl::StatusOr<std::unique_ptr<client::Client>> connected = Connect(arguments);
    if (!connected.ok()) return connected.status();
    client = *std::move(connected);
  }
  const absl::StatusOr<Requests> requests = PrepareRequests(plan, client.get());
  if (!requests.ok()) return requests.status();
  const absl::StatusOr<client::ClientOptions> options = ClientOptionsFrom(arguments);
  if (!options.ok()) return options.status();
  CallerOptions caller_options = {ServerAddress(arguments), *options, 1, !plan.echo, plan.check};
  for (const Load& load : plan.loads) caller_options.slots = std::max(caller_options.slots, load.slots());
  const absl::StatusOr<std::unique_ptr<Caller>> caller = MakeGrpcCaller(caller_options, requests->bodies);
  if (!caller.ok()) return caller.status();

  const InterruptGuard interrupt;
  ProgressLine line(streams.err);
  RequestPicker picker(requests->groups, plan.seed);
  Report report = {Describe(plan), {}};
  for (const Load& load : plan.loads) {
    const Hooks hooks = {
        [&] { return interrupt.interrupted(); },
        [&](int64_t window, const Tally& tally) { line.Show(ShowWindow(load, window, tally)); },
        [&] { return picker.Next(); },
    };
    report.levels.push_back(RunLevel(**caller, load, plan.stopping, hooks));
    if (interrupt.interrupted()) break;
  }
  return report;
}

absl::Status Outcome(const Report& report) {
  for (const Level& level : report.levels) {
    if (level.tally.wrong > 0) {
      return absl::DataLossError(
          absl::StrCat(level.tally.wrong, " answers differ from the first to the same request beyond --check"));
    }
    if (level.tally.good() == 0 && level.tally.failed() > 0) {
      const auto& [code, errors] = *level.tally.errors.begin();
      return absl::Status(static_cast<absl::StatusCode>(code),
                          absl::StrCat("no call ended well; the first: ", errors.first_message));
    }
    if (level.tally.good() == 0 && level.ended != Ended::kInterrupted) {
      return absl::FailedPreconditionError("no call was due or ended in time; measure longer, or at a higher rate");
    }
  }
  return absl::OkStatus();
}

absl::Status RunBench(const Arguments& arguments, Streams& streams) {
  const absl::StatusOr<Plan> plan = PlanFrom(arguments);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<Report> report = Measure(arguments, *plan, streams);
  if (!report.ok()) return report.status();
  streams.out << (plan->format == Format::kJson  ? ReportJson(*report)
                  : plan->format == Format::kCsv ? ReportCsv(*report)
                                                 : ShowReport(*report, plan->histogram));
  return Outcome(*report);
}

constexpr Command kCommands[] = {{.name = "bench",
                                  .summary = "measure a server under load",
                                  .usage = "[FLAGS]",
                                  .text = kText,
                                  .flags = kFlags,
                                  .run = RunBench}};

}  // namespace
}  // namespace bench

std::span<const Command> BenchCommands() { return bench::kCommands; }

}  // namespace rnnserve::rnnctl
