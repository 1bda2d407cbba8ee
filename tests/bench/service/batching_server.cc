// SPDX-License-Identifier: Apache-2.0
// The server with a scheduler that batches whole requests, or none, on the same engines: what cellular batching is
// compared with in docs/benchmarks.md. Ends by a signal.
//
//   batching_server request|off        prints its port
#include <chrono>
#include <iostream>
#include <string_view>
#include <thread>

#include "engine/cpu/cpu_engine.h"
#include "engine/onednn/onednn_engine.h"
#include "engine/reference/reference_engine.h"
#include "server/api/grpc_server.h"
#include "server/routing/routing_thread.h"
#include "server/sessions/contract/memory_sessions.h"
#include "tests/bench/service/request_scheduler.h"

int main(int argc, char** argv) {
  using namespace rnnserve;
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode != "request" && mode != "off") {
    std::cerr << "usage: batching_server request|off\n";
    return 1;
  }
  const auto cpu = MakeCpuEngineWithHelper(), onednn = MakeOneDnnEngine(), reference = MakeReferenceEngine();
  ModelStore models{{}};
  ProgramCache programs(int64_t{1} << 30);
  const SteadyClock clock;
  MemorySessions sessions({}, &clock);
  RequestScheduler scheduler(
      {.workers = static_cast<int>(std::thread::hardware_concurrency()), .shares = mode == "request"});
  Core core({}, {cpu.get(), onednn.get(), reference.get()}, &models, &programs, &scheduler);
  const RoutingThread routing(&core.router());
  SessionCore session_core({}, &core, &sessions, &clock);
  const auto server = GrpcServer::Start({.listen = {"127.0.0.1:0"}}, &core, &session_core);
  if (!server.ok()) {
    std::cerr << server.status().message() << "\n";
    return 1;
  }
  std::cout << "port " << (*server)->ports()[0] << std::endl;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}
