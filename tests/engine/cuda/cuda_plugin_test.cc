// SPDX-License-Identifier: Apache-2.0
// The built librnnserve_cuda.so through the loader: it serves, or says why not in one line.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <iostream>
#include <string>

#include "engine/cuda/predicate.h"
#include "engine/plugin/engine_abi.h"
#include "engine/plugin/plugin_engine.h"

namespace rnnserve {
namespace {

TEST(CudaPluginTest, ServesOrSaysWhyNotInOneLine) {
  const auto engine = plugin::PluginEngine::Load(CUDA_PLUGIN, {});
  if (engine.ok()) {
    EXPECT_EQ((*engine)->name(), "cuda");
    EXPECT_THAT((*engine)->description(), testing::HasSubstr("CUDA driver"));
    return;
  }
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kUnavailable) << engine.status();
  const std::string message(engine.status().message());
  std::cout << message << "\n";  // for cuda_old_driver_test and cuda_no_device_test
  EXPECT_THAT(message, testing::HasSubstr(std::string("plugin \"") + CUDA_PLUGIN + "\": engine \"cuda\", opening: "));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("no reason given")));
}

// Tables of what is supported are made without a device.
TEST(CudaPluginTest, AnswersForCellsWithoutAnEngine) {
  void* const library = dlopen(CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<rnnserve_engine_api_fn>(dlsym(library, RNNSERVE_ENGINE_API_SYMBOL));
  constexpr rnnserve_handshake kOurs = RNNSERVE_HANDSHAKE;
  const rnnserve_api* const api = entry(&kOurs);
  rnnserve_cell cell{};
  cell.hidden_size = 1;
  cell.data_type = RNNSERVE_FLOAT;
  char error[512] = {};
  EXPECT_EQ(api->supports(nullptr, &cell, error, sizeof error), RNNSERVE_OK) << error;
  cell.deterministic = 1;
  EXPECT_EQ(api->supports(nullptr, &cell, error, sizeof error), RNNSERVE_UNIMPLEMENTED);
  EXPECT_EQ(error, cuda::EngineRefusal(cell));
}

}  // namespace
}  // namespace rnnserve
