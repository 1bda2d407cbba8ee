// SPDX-License-Identifier: Apache-2.0
#include "server/admin/admin_server.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/admin/status_page.h"
#include "server/telemetry/log.h"
#include "server/telemetry/prometheus_text.h"
#include "server/telemetry/triton_metrics.h"

namespace rnnserve {
namespace {

HttpPage YesOrNo(bool answer, std::string yes, std::string no) {
  return {answer ? 200 : 503, "text/plain", answer ? std::move(yes) : std::move(no)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> StartAdminServer(AdminOptions options) {
  HttpServer::Options http;
  http.listen = options.listen;
  const Metrics* metrics = options.metrics;
  http.pages["/metrics"] = [metrics, also_tritons = options.triton_metrics] {
    std::vector<MetricReading> readings = metrics->Collect();
    if (also_tritons) std::ranges::move(TritonMetrics(readings), std::back_inserter(readings));
    return HttpPage{200, "text/plain; version=0.0.4; charset=utf-8", PrometheusText(readings)};
  };
  http.pages["/healthz"] = [is_alive = options.is_alive] {
    return YesOrNo(is_alive(), "ok\n", "no call has moved for a while\n");
  };
  http.pages["/readyz"] = [is_ready = options.is_ready] { return YesOrNo(is_ready(), "ready\n", "not ready\n"); };
  http.pages["/status.json"] = [metrics, is_ready = options.is_ready, refused_files = options.refused_files,
                                recorder = std::make_shared<StatusRecorder>(metrics)] {
    const StatusParts parts = {is_ready(), LatestProblems(), refused_files(), recorder->history().Points()};
    return HttpPage{200, "application/json", StatusJson(metrics->Collect(), parts)};
  };
  http.pages["/"] = [] { return HttpPage{200, "text/html; charset=utf-8", std::string(kStatusPage)}; };
  return HttpServer::Start(std::move(http));
}

}  // namespace rnnserve
