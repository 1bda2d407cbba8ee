// SPDX-License-Identifier: Apache-2.0
// The admin port: /metrics for Prometheus, /healthz (the process is alive), /readyz (it accepts calls), and a status
// page at / that reads /status.json.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/admin/http_server.h"
#include "server/admin/status_json.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

struct AdminOptions {
  std::string listen;
  const Metrics* metrics;  // outlives the server
  // From any thread; must not block.
  std::function<bool()> is_ready;
  std::function<bool()> is_alive;
  std::function<RefusedFiles()> refused_files;
  bool triton_metrics = false;  // /metrics tells them under Triton's names as well
};

absl::StatusOr<std::unique_ptr<HttpServer>> StartAdminServer(AdminOptions options);

}  // namespace rnnserve
