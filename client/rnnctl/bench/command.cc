// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/command.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/rnnctl/bench/measure.h"
#include "client/rnnctl/bench/plan.h"
#include "client/rnnctl/bench/report.h"
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
    Flag{.name = "tick",
         .value = "TIME",
         .help = "with --rate: send what is due, and look at answers, only so often; latencies count the delay, and a "
                 "server on this machine keeps more of its CPU; default: at once"},
    Flag{.name = "sessions",
         .value = "N",
         .help = "sessions that each send chunk after chunk; lists and ranges as above"},
    Flag{.name = "chunk", .value = "T", .help = "with --sessions: steps of each chunk, or SHORTEST:LONGEST; default 1"},
    Flag{.name = "cadence",
         .value = "TIME",
         .help = "with --sessions: open loop, a chunk so often in each session, such as 32ms"},
    Flag{.name = "arrivals",
         .value = "HOW",
         .help = "with --cadence: regular (default), or random: so often on average (Poisson)"},
    Flag{.name = "find",
         .value = "P99",
         .help = "with --cadence: search the number of sessions held at this 99th percentile, from --sessions on"},
    Flag{.name = "operations", .value = "N", .help = "with --sessions: operations a message, at most; default 1"},
    Flag{.name = "streams", .value = "N", .help = "with --sessions: streams that carry all of them; default 1"},
    Flag{.name = "life", .value = "CHUNKS", .help = "with --sessions: close each after so many and open another"},
    Flag{.name = "keep", .value = "N", .help = "with --sessions: replies kept for repetition; default: the server's"},
    Flag{.name = "keep-bytes", .value = "N", .help = "with --sessions: bytes of these; default: the server's"},
    kDurabilityFlag,
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
    kWeightTypeFlag,
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

A closed loop (--concurrency) tells how much a server can do. An open loop (--rate) tells what callers see that
do not wait for each other: requests are due at random (Poisson) moments, and latency counts from the moment a request
was due, so a stall is charged to all requests that waited through it.

Sessions (--sessions) keep their state in the server and send numbered chunks over a few streams, in a closed loop, or
with --cadence as real-time sources do: whether or not the chunk before is answered in time, and latency counts from
when a chunk was due. The real-time factor is the mean latency of a chunk over the cadence; below 1 the server keeps
up. Chunks that are ready at the same moment travel together, up to --operations a message, as a gateway sends them.
--check compares the n-th reply of each session with the first n-th reply.

Weights and data are random. An operator's weights travel once; later requests name their fingerprint. Each entry sends
8 different contents, a range of lengths up to 64 different lengths. A mix is a file such as

  [{"weight": 3, "model": "vad:2", "steps": [1, 400]},
   {"weight": 1, "op": "GRU", "hidden": 256, "input": 80, "steps": 32, "rows": 4,
    "attributes": ["linear_before_reset=1"]}]

Of several servers (--server a:50051,b:50051) a call goes to the one with the fewest under way, sessions are spread over
all, with a stream to each at least. Each address is one server, and all of them have to be there at the beginning.

Ctrl-C ends the measurement, prints what there is and closes the sessions. Exit code 1 also if no call of a level ended well or --check
found a wrong answer; refused calls among others are counted, not fatal.

Examples:
  rnnctl bench --op LSTM --hidden 128 --steps 32 --concurrency 1,8,64
  rnnctl bench --model vad --steps 1:400 --rate 2000 --duration 30s --histogram
  rnnctl bench --mix mix.json --concurrency 64 --check 1e-5
  rnnctl bench --rate 1000:8000 --csv > rates.csv
  rnnctl bench --sessions 1,64,1000 --hidden 512 --operations 32
  rnnctl bench --sessions 500 --chunk 2 --cadence 32ms --find 20ms
  rnnctl bench --sessions 64 --durability sync)";

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
  ASSIGN_OR_RETURN(const Plan plan, PlanFrom(arguments));
  ASSIGN_OR_RETURN(const Report report, Measure(arguments, plan, streams));
  streams.out << (plan.format == Format::kJson  ? ReportJson(report)
                  : plan.format == Format::kCsv ? ReportCsv(report)
                                                : ShowReport(report, plan.histogram));
  return Outcome(report);
}

constexpr Command kBenchCommands[] = {{.name = "bench",
                                       .summary = "measure a server under load",
                                       .usage = "[FLAGS]",
                                       .text = kText,
                                       .flags = kFlags,
                                       .run = RunBench}};

}  // namespace
}  // namespace bench

std::span<const Command> BenchCommands() { return bench::kBenchCommands; }

}  // namespace rnnserve::rnnctl
