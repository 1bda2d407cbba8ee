// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/plan.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "client/rnnctl/attributes.h"
#include "client/rnnctl/bench/flag_reader.h"
#include "client/rnnctl/call.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr size_t kMaxLevels = 1000;
constexpr int64_t kMaxInFlight = 1 << 16;
constexpr double kMaxRate = 1e7;
constexpr Time kFindDuration = std::chrono::seconds(3);  // of each number of sessions tried

absl::Status WrongLevels(std::string_view text, std::string_view what) {
  return UsageError(
      absl::StrCat(View(what), "=", View(text),
                   ": expected numbers above 0, such as 64, 1,8,64, 1:64 (doubling) or 4:16:4 (in steps)"));
}

// `flag`: steps, or chunk.
absl::Status ReadSteps(std::string_view flag, const std::string& text, MixEntry& entry) {
  const size_t colon = text.find(':');
  const std::string last = colon == std::string::npos ? text : text.substr(colon + 1);
  if (!absl::SimpleAtoi(text.substr(0, colon), &entry.min_steps) || !absl::SimpleAtoi(last, &entry.max_steps) ||
      entry.min_steps < 1 || entry.max_steps < entry.min_steps || entry.max_steps > kMaxSteps) {
    return UsageError(
        absl::StrCat("--", View(flag), "=", text, ": expected a number of steps or SHORTEST:LONGEST, such as 1:400"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MixEntry> EntryFrom(const Arguments& arguments) {
  MixEntry entry;
  if (const auto name = arguments.Get("model")) {
    for (std::string_view flag : {"op", "opset", "attr", "hidden", "input", "cast", "inline"}) {
      if (arguments.Has(flag)) return Excluded(flag, "model");
    }
    ASSIGN_OR_RETURN(entry.model, ParseModelRef(*name, "--model"));
  }
  FlagReader reader(arguments);
  entry.op = arguments.Get("op").value_or(entry.op);
  reader.Whole("opset", 1, kMaxSize, entry.opset);
  reader.Whole("hidden", 1, kMaxSize, entry.hidden);
  entry.input = entry.hidden;
  reader.Whole("input", 1, kMaxSize, entry.input);
  reader.Whole("rows", 1, kMaxSize, entry.rows);
  if (arguments.Has("sessions")) entry.min_steps = entry.max_steps = 1;
  for (std::string_view flag : {"steps", "chunk"}) {
    if (const auto steps = arguments.Get(flag)) reader.Fail(ReadSteps(flag, *steps, entry));
  }
  absl::StatusOr<std::map<std::string, AttributeValue>> attributes = ParseAttributes(arguments.All("attr"));
  reader.Fail(attributes.status());
  if (attributes.ok()) entry.attributes = *std::move(attributes);
  if (!entry.model) reader.Fail(CheckOperator(entry, absl::StrCat("--op=", entry.op)));
  if (!reader.status().ok()) return reader.status();
  return entry;
}

absl::StatusOr<std::vector<MixEntry>> MixFrom(const Arguments& arguments) {
  const std::optional<std::string> path = arguments.Get("mix");
  if (!path) {
    ASSIGN_OR_RETURN(MixEntry entry, EntryFrom(arguments));
    return std::vector<MixEntry>{std::move(entry)};
  }
  for (std::string_view flag : {"op", "opset", "attr", "hidden", "input", "rows", "steps", "model"}) {
    if (arguments.Has(flag)) return Excluded(flag, "mix");
  }
  ASSIGN_OR_RETURN(const std::string json, ReadFile(*path));
  return ParseMix(json, *path);
}

absl::StatusOr<std::vector<Load>> LoadsFrom(const Arguments& arguments, const std::optional<SessionPlan>& sessions,
                                            uint64_t seed) {
  if (arguments.Has("concurrency") && arguments.Has("rate")) return Excluded("concurrency", "rate");
  if (arguments.Has("max-in-flight") && !arguments.Has("rate")) {
    return UsageError("--max-in-flight belongs to --rate; --concurrency bounds a closed loop itself");
  }
  if (arguments.Has("tick") && !arguments.Has("rate")) {
    return UsageError("--tick belongs to --rate; a closed loop sends when an answer has come");
  }
  const bool open = arguments.Has("rate");
  const std::string_view name = sessions ? "sessions" : open ? "rate" : "concurrency";
  ASSIGN_OR_RETURN(const std::vector<double> values,
                   ParseLevels(arguments.Get(name).value_or("1"), absl::StrCat("--", View(name))));
  Load load;
  load.seed = seed;
  load.sessions = sessions.has_value();
  if (sessions) load.cadence = sessions->cadence;
  if (sessions) load.irregular = sessions->irregular;
  FlagReader reader(arguments);
  reader.Whole("max-in-flight", 1, kMaxInFlight, load.max_in_flight);
  reader.Duration("tick", absl::Microseconds(100), load.tick);
  if (!reader.status().ok()) return reader.status();
  const int64_t most = sessions ? kMaxSessions : kMaxInFlight;
  std::vector<Load> loads;
  for (double value : values) {
    if (open ? value > kMaxRate : value > static_cast<double>(most) || value != std::floor(value)) {
      return UsageError(absl::StrCat("--", View(name), ": ", value, " is not ",
                                     open       ? "a rate up to 1e7 a second"
                                     : sessions ? absl::StrCat("a whole number of sessions up to ", kMaxSessions)
                                                : absl::StrCat("a whole number of callers up to ", kMaxInFlight)));
    }
    (open ? load.rate : value) = value;
    if (!open) load.concurrency = static_cast<int64_t>(value);
    loads.push_back(load);
  }
  if (sessions && sessions->find && loads.size() > 1) {
    return UsageError("--find starts from one number of --sessions; give one");
  }
  return loads;
}

absl::StatusOr<Stopping> StoppingFrom(const Arguments& arguments) {
  Stopping stopping;
  FlagReader reader(arguments);
  reader.Duration("warm-up", absl::ZeroDuration(), stopping.warm_up);
  reader.Duration("window", absl::Milliseconds(10), stopping.window);
  reader.Duration("duration", absl::Milliseconds(10), stopping.duration);
  if (arguments.Has("requests")) stopping.requests = 1;
  reader.Whole("requests", 1, std::numeric_limits<int64_t>::max(), stopping.requests);
  reader.Whole("max-windows", static_cast<int64_t>(kStableWindows), 100000, stopping.max_windows);
  reader.Share("stability", stopping.stability);
  for (std::string_view flag : {"duration", "requests"}) {
    if (!arguments.Has(flag)) continue;
    if (arguments.Has("stability")) reader.Fail(Excluded("stability", flag));
    if (arguments.Has("max-windows")) reader.Fail(Excluded("max-windows", flag));
  }
  if (!reader.status().ok()) return reader.status();
  return stopping;
}

absl::Status ReadChecks(const Arguments& arguments, Plan& plan) {
  if (const auto text = arguments.Get("check")) {
    double tolerance = 0;
    if (*text != "exact" && (!absl::SimpleAtod(*text, &tolerance) || !(tolerance >= 0) || !std::isfinite(tolerance))) {
      return UsageError(absl::StrCat("--check=", *text, ": expected exact, or a tolerance such as 1e-5"));
    }
    plan.check = tolerance;
  }
  if (plan.echo && plan.check) return Excluded("check", "echo");
  if (plan.echo && plan.always_inline) return Excluded("inline", "echo");
  for (const MixEntry& entry : plan.mix) {
    if (plan.echo && entry.model) return UsageError("--echo asks no server for models; say the sizes with --op");
  }
  if (arguments.Has("json") && arguments.Has("csv")) return Excluded("json", "csv");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<double>> ParseLevels(std::string_view text, std::string_view what) {
  std::vector<double> levels;
  for (absl::string_view part : absl::StrSplit(View(text), ',')) {
    const std::vector<absl::string_view> bounds = absl::StrSplit(part, ':');
    std::vector<double> numbers;
    for (absl::string_view bound : bounds) {
      double number = 0;
      if (!absl::SimpleAtod(bound, &number) || !(number > 0) || !std::isfinite(number)) return WrongLevels(text, what);
      numbers.push_back(number);
    }
    if (numbers.size() > 3 || (numbers.size() > 1 && numbers[1] < numbers[0])) return WrongLevels(text, what);
    const double last = numbers.size() > 1 ? numbers[1] : numbers[0];
    for (double level = numbers[0]; level <= last; level = numbers.size() == 3 ? level + numbers[2] : level * 2) {
      levels.push_back(level);
      if (levels.size() > kMaxLevels) {
        return UsageError(absl::StrCat(View(what), "=", View(text), ": more than ", kMaxLevels, " levels"));
      }
    }
  }
  return levels;
}

absl::StatusOr<Plan> PlanFrom(const Arguments& arguments) {
  if (!arguments.positional().empty()) {
    return UsageError(absl::StrCat("what is ", arguments.positional()[0], "? bench takes flags only"));
  }
  Plan plan;
  FlagReader reader(arguments);
  reader.Whole("seed", 0, std::numeric_limits<int64_t>::max(), plan.seed);
  if (!reader.status().ok()) return reader.status();
  ASSIGN_OR_RETURN(plan.sessions, SessionPlanFrom(arguments));
  ASSIGN_OR_RETURN(plan.mix, MixFrom(arguments));
  ASSIGN_OR_RETURN(plan.loads, LoadsFrom(arguments, plan.sessions, plan.seed));
  ASSIGN_OR_RETURN(plan.stopping, StoppingFrom(arguments));
  if (plan.sessions && plan.sessions->find && !plan.stopping.duration) plan.stopping.duration = kFindDuration;
  ASSIGN_OR_RETURN(plan.options.options, OptionsFrom(arguments));
  if (const auto outputs = arguments.Get("outputs")) {
    plan.options.outputs = absl::StrSplit(*outputs, ',', absl::SkipEmpty());
  }
  plan.options.engine = arguments.Get("engine").value_or("");
  plan.cast = arguments.Get("cast");
  plan.always_inline = arguments.Has("inline");
  plan.echo = arguments.Has("echo");
  plan.histogram = arguments.Has("histogram");
  plan.format = arguments.Has("json") ? Format::kJson : arguments.Has("csv") ? Format::kCsv : Format::kTable;
  RETURN_IF_ERROR(ReadChecks(arguments, plan));
  return plan;
}

}  // namespace rnnserve::rnnctl::bench
