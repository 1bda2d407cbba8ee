// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/sessions/session_plan.h"

#include <array>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/rnnctl/bench/flag_reader.h"
#include "client/rnnctl/call.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr int64_t kMaxStreams = 4096;
constexpr int64_t kMaxOperations = 4096;
constexpr int64_t kMaxKept = 65536;

constexpr std::array<std::string_view, 10> kOnlyWithSessions = {
    "chunk", "cadence", "arrivals", "operations", "streams", "life", "keep", "keep-bytes", "durability", "find"};
constexpr std::array<std::string_view, 6> kNeverWithSessions = {"concurrency", "rate",  "max-in-flight",
                                                                "mix",         "steps", "inline"};

}  // namespace

absl::StatusOr<std::optional<SessionPlan>> SessionPlanFrom(const Arguments& arguments) {
  FlagReader reader(arguments);
  for (std::string_view flag : kOnlyWithSessions) reader.Needs(flag, "sessions");
  for (std::string_view flag : kNeverWithSessions) reader.Exclude(flag, "sessions");
  reader.Needs("arrivals", "cadence");
  reader.Needs("find", "cadence");
  reader.Exclude("find", "requests");
  reader.Exclude("find", "echo");
  SessionPlan plan;
  reader.Whole("streams", 1, kMaxStreams, plan.streams);
  reader.Whole("operations", 1, kMaxOperations, plan.operations);
  reader.Whole("life", 1, INT64_MAX, plan.life);
  reader.Whole("keep", 0, kMaxKept, plan.kept_replies);
  reader.Whole("keep-bytes", 0, INT64_MAX, plan.kept_bytes);
  reader.Duration("cadence", absl::Microseconds(1), plan.cadence);
  reader.Duration("find", absl::Microseconds(1), plan.find);
  ASSIGN_OR_RETURN(plan.durability, DurabilityFrom(arguments));
  const std::string arrivals = arguments.Get("arrivals").value_or("regular");
  if (arrivals != "regular" && arrivals != "random") {
    reader.Fail(UsageError(absl::StrCat("--arrivals=", arrivals, ": expected regular or random")));
  }
  plan.irregular = arrivals == "random";
  if (!reader.status().ok()) return reader.status();
  if (!arguments.Has("sessions")) return std::optional<SessionPlan>();
  return std::optional(plan);
}

}  // namespace rnnserve::rnnctl::bench
