// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/report.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/rnnctl/show.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr std::string_view kEnded[] = {"stable", "unstable", "duration", "requests", "failing", "interrupted"};
constexpr int64_t kBarLength = 50;

double ToMs(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

std::string Ms(std::chrono::nanoseconds time) {
  const double ms = ToMs(time);
  return ms < 10 ? absl::StrFormat("%.3f", ms) : ms < 100 ? absl::StrFormat("%.2f", ms) : absl::StrFormat("%.1f", ms);
}

std::string Rate(double per_second) {
  return per_second < 100 ? absl::StrFormat("%.2f", per_second) : absl::StrFormat("%.0f", per_second);
}

std::string CodeName(int code) { return absl::StatusCodeToString(static_cast<absl::StatusCode>(code)); }

std::string Codes(const Tally& tally) {
  std::vector<std::string> codes;
  for (const auto& [code, errors] : tally.errors) codes.push_back(absl::StrCat(CodeName(code), "=", errors.count));
  return absl::StrJoin(codes, " ");
}

std::string LoadName(const Load& load) {
  if (load.rate > 0) return absl::StrFormat("%g/s", load.rate);
  const std::string_view one = load.sessions ? " session" : " caller";
  return absl::StrCat(load.concurrency, absl::string_view(one.data(), one.size()), load.concurrency == 1 ? "" : "s");
}

double CpuPerCallUs(const Tally& tally) {
  const double us = std::chrono::duration<double, std::micro>(tally.cpu).count();
  return tally.answered() == 0 ? 0 : us / static_cast<double>(tally.answered());
}

// Seconds waited for each second of media; 0 without a cadence.
double RealTimeFactor(const Level& level) {
  const Time cadence = level.load.cadence;
  return cadence.count() == 0 ? 0 : ToMs(level.tally.latency.Mean()) / ToMs(cadence);
}

int64_t PerCall(int64_t bytes, const Tally& tally) { return tally.good() == 0 ? 0 : bytes / tally.good(); }

struct Figure {
  std::string name;
  std::string value;
  bool text = false;  // to be quoted in JSON
};

void AddTimes(const std::string& name, const Histogram& times, std::vector<Figure>& figures) {
  const auto add = [&](const std::string& which, std::chrono::nanoseconds time) {
    figures.push_back({absl::StrCat(name, "_", which, "_ms"), absl::StrFormat("%.6f", ToMs(time))});
  };
  add("mean", times.Mean());
  add("p50", times.Percentile(50));
  add("p90", times.Percentile(90));
  add("p95", times.Percentile(95));
  add("p99", times.Percentile(99));
  add("p99_9", times.Percentile(99.9));
  add("max", times.max());
}

std::vector<Figure> Figures(const Level& level) {
  const Tally& tally = level.tally;
  std::vector<Figure> figures = {
      {"concurrency", absl::StrCat(level.load.rate > 0 ? 0 : level.load.concurrency)},
      {"rate", absl::StrFormat("%g", level.load.rate)},
      {"ended", std::string(kEnded[static_cast<size_t>(level.ended)]), true},
      {"windows", absl::StrCat(level.windows)},
      {"seconds", absl::StrFormat("%.6f", ToMs(tally.span) / 1000)},
      {"calls", absl::StrCat(tally.good())},
      {"calls_per_second", absl::StrFormat("%.3f", tally.CallsPerSecond())},
      {"failed", absl::StrCat(tally.failed())},
      {"codes", Codes(tally), true},
      {"unsent", absl::StrCat(level.unsent)},
  };
  AddTimes("latency", tally.latency, figures);
  AddTimes("queue", tally.queue, figures);
  AddTimes("compute", tally.compute, figures);
  AddTimes("lag", tally.lag, figures);
  AddTimes("refusal", tally.refusal, figures);
  const std::vector<Figure> rest = {
      {"largest_batch", absl::StrCat(tally.largest_batch)},
      {"sent_bytes_per_call", absl::StrCat(PerCall(tally.sent_bytes, tally))},
      {"received_bytes_per_call", absl::StrCat(PerCall(tally.received_bytes, tally))},
      {"client_cpu_us_per_call", absl::StrFormat("%.3f", CpuPerCallUs(tally))},
      {"same", absl::StrCat(tally.same)},
      {"close", absl::StrCat(tally.close)},
      {"wrong", absl::StrCat(tally.wrong)},
      {"sessions", absl::StrCat(level.load.sessions ? level.load.concurrency : 0)},
      {"cadence_ms", absl::StrFormat("%g", ToMs(level.load.cadence))},
      {"steps_per_second", absl::StrFormat("%.3f", tally.StepsPerSecond())},
      {"real_time_factor", absl::StrFormat("%.6f", RealTimeFactor(level))},
      {"opened", absl::StrCat(level.opened.count())},
      {"open_p50_ms", absl::StrFormat("%.6f", ToMs(level.opened.Percentile(50)))},
      {"open_p99_ms", absl::StrFormat("%.6f", ToMs(level.opened.Percentile(99)))},
  };
  figures.insert(figures.end(), rest.begin(), rest.end());
  return figures;
}

// Texts from the server may hold any bytes; what is not printable ASCII becomes '?'.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c >= ' ' && c <= '~' ? c : '?';
  }
  return quoted + '"';
}

using Rows = std::vector<std::vector<std::string>>;

Rows LatencyRows(const Report& report) {
  Rows rows = {{"load", "calls/s", "p50 ms", "p90", "p95", "p99", "p99.9", "max", "calls", "ended"}};
  for (const Level& level : report.levels) {
    const Histogram& latency = level.tally.latency;
    rows.push_back({LoadName(level.load), Rate(level.tally.CallsPerSecond()), Ms(latency.Percentile(50)),
                    Ms(latency.Percentile(90)), Ms(latency.Percentile(95)), Ms(latency.Percentile(99)),
                    Ms(latency.Percentile(99.9)), Ms(latency.max()), absl::StrCat(level.tally.good()),
                    std::string(kEnded[static_cast<size_t>(level.ended)])});
  }
  return rows;
}

Rows ServerRows(const Report& report) {
  Rows rows = {
      {"load", "queue mean ms", "p50", "p99", "compute mean ms", "p50", "p99", "largest batch", "client CPU us/call"}};
  for (const Level& level : report.levels) {
    const Tally& tally = level.tally;
    const bool told = tally.compute.count() > 0;
    const auto time = [&](std::chrono::nanoseconds value) { return told ? Ms(value) : "-"; };
    rows.push_back({LoadName(level.load), time(tally.queue.Mean()), time(tally.queue.Percentile(50)),
                    time(tally.queue.Percentile(99)), time(tally.compute.Mean()), time(tally.compute.Percentile(50)),
                    time(tally.compute.Percentile(99)), told ? absl::StrCat(tally.largest_batch) : "-",
                    absl::StrFormat("%.1f", CpuPerCallUs(tally))});
  }
  return rows;
}

Rows SessionRows(const Report& report) {
  Rows rows = {{"load", "steps/s", "real-time factor", "opened", "open p50 ms", "p99"}};
  for (const Level& level : report.levels) {
    const bool opened = level.opened.count() > 0;
    rows.push_back({LoadName(level.load), Rate(level.tally.StepsPerSecond()),
                    level.load.cadence.count() > 0 ? absl::StrFormat("%.3f", RealTimeFactor(level)) : "-",
                    absl::StrCat(level.opened.count()), opened ? Ms(level.opened.Percentile(50)) : "-",
                    opened ? Ms(level.opened.Percentile(99)) : "-"});
  }
  return rows;
}

std::string ShowHeld(const HeldSessions& held) {
  const std::string target = absl::StrCat("p99 of at most ", Ms(held.target), " ms");
  if (held.sessions == 0) return absl::StrCat("not even one session had a ", target, "\n");
  return absl::StrCat("held ", held.sessions, held.sessions == 1 ? " session" : " sessions", " at a ", target, "\n");
}

// What a person must know before trusting the figures.
std::string Remarks(const Level& level) {
  const Tally& tally = level.tally;
  const std::string load = LoadName(level.load);
  std::string text;
  for (const auto& [code, errors] : tally.errors) {
    absl::StrAppend(&text, load, ": ", errors.count, " calls ended with ", CodeName(code),
                    ", the first: ", Printable(errors.first_message), "\n");
  }
  if (level.unsent > 0) {
    absl::StrAppend(&text, load, ": ", level.unsent, " requests were due but never sent, because ",
                    level.load.sessions ? "the chunk before was" : absl::StrCat(level.load.max_in_flight, " were"),
                    " under way; their waiting is in no figure\n");
  }
  if (level.load.open() && tally.good() > 0) {
    absl::StrAppend(&text, load, ": requests left p50 ", Ms(tally.lag.Percentile(50)), " ms, p99 ",
                    Ms(tally.lag.Percentile(99)), " ms after they were due; it is in the latency\n");
  }
  if (tally.same + tally.close + tally.wrong > 0) {
    absl::StrAppend(&text, load, ": answers compared with the first of their request: ", tally.same, " same bits, ",
                    tally.close, " within the tolerance, ", tally.wrong, " WRONG\n");
  }
  return text;
}

std::string ShowHistogram(const Level& level) {
  const std::vector<Histogram::Bucket> buckets = level.tally.latency.Buckets(4);
  int64_t most = 1;
  for (const Histogram::Bucket& bucket : buckets) most = std::max(most, bucket.count);
  Rows rows;
  for (const Histogram::Bucket& bucket : buckets) {
    rows.push_back({absl::StrCat("  below ", Ms(bucket.end), " ms"), absl::StrCat(bucket.count),
                    std::string(static_cast<size_t>(bucket.count * kBarLength / most), '#')});
  }
  return absl::StrCat("latency at ", LoadName(level.load), "\n", FormatTable(rows));
}

}  // namespace

std::string ShowReport(const Report& report, bool histogram) {
  std::string text = absl::StrCat(report.what);
  if (!report.levels.empty() && report.levels[0].tally.good() > 0) {
    const Tally& tally = report.levels[0].tally;
    absl::StrAppend(&text, "; ", PerCall(tally.sent_bytes, tally), " bytes out and ",
                    PerCall(tally.received_bytes, tally), " back a call");
  }
  absl::StrAppend(&text, "\n\n", FormatTable(LatencyRows(report)), "\n", FormatTable(ServerRows(report)));
  if (!report.levels.empty() && report.levels[0].load.sessions) {
    absl::StrAppend(&text, "\n", FormatTable(SessionRows(report)));
  }
  std::string remarks;
  if (report.held) remarks += ShowHeld(*report.held);
  for (const Level& level : report.levels) remarks += Remarks(level);
  if (!remarks.empty()) absl::StrAppend(&text, "\n", remarks);
  if (histogram) {
    for (const Level& level : report.levels) absl::StrAppend(&text, "\n", ShowHistogram(level));
  }
  return text;
}

std::string ReportJson(const Report& report) {
  std::vector<std::string> levels;
  for (const Level& level : report.levels) {
    std::vector<std::string> fields;
    for (const Figure& figure : Figures(level)) {
      fields.push_back(absl::StrCat("\"", figure.name, "\": ", figure.text ? Quoted(figure.value) : figure.value));
    }
    std::vector<std::string> errors, buckets;
    for (const auto& [code, of_code] : level.tally.errors) {
      errors.push_back(absl::StrCat("{\"code\": ", Quoted(CodeName(code)), ", \"count\": ", of_code.count,
                                    ", \"first_message\": ", Quoted(of_code.first_message), "}"));
    }
    for (const Histogram::Bucket& bucket : level.tally.latency.Buckets(8)) {
      buckets.push_back(absl::StrFormat("[%.6f, %d]", ToMs(bucket.end), bucket.count));
    }
    fields.push_back(absl::StrCat("\"errors\": [", absl::StrJoin(errors, ", "), "]"));
    fields.push_back(absl::StrCat("\"latency_buckets_below_ms\": [", absl::StrJoin(buckets, ", "), "]"));
    levels.push_back(absl::StrCat("    {", absl::StrJoin(fields, ", "), "}"));
  }
  const std::string held = report.held ? absl::StrFormat("  \"held_sessions\": %d,\n  \"target_p99_ms\": %.6f,\n",
                                                         report.held->sessions, ToMs(report.held->target))
                                       : "";
  return absl::StrCat("{\n  \"what\": ", Quoted(report.what), ",\n", held, "  \"levels\": [\n",
                      absl::StrJoin(levels, ",\n"), "\n  ]\n}\n");
}

std::string ReportCsv(const Report& report) {
  const auto line = [](const Level& level, std::string Figure::*part) {
    return absl::StrJoin(Figures(level), ",",
                         [part](std::string* out, const Figure& figure) { out->append(figure.*part); });
  };
  std::string text = absl::StrCat(line(report.levels.empty() ? Level() : report.levels[0], &Figure::name), "\n");
  for (const Level& level : report.levels) absl::StrAppend(&text, line(level, &Figure::value), "\n");
  return text;
}

std::string ShowWindow(const Load& load, int64_t window, const Tally& tally) {
  return absl::StrCat(LoadName(load), ", window ", window, ": ", Rate(tally.CallsPerSecond()), " calls/s, p50 ",
                      Ms(tally.latency.Percentile(50)), " ms, p99 ", Ms(tally.latency.Percentile(99)), " ms",
                      tally.failed() > 0 ? absl::StrCat(", ", Codes(tally)) : "");
}

}  // namespace rnnserve::rnnctl::bench
