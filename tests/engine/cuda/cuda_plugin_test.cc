// SPDX-License-Identifier: Apache-2.0
// The built librnnserve_cuda.so through the loader: it serves, or says why not in one line.
#include <gmock/gmock.h>

#include <string>

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
  EXPECT_THAT(message, testing::HasSubstr(std::string("plugin \"") + CUDA_PLUGIN + "\": engine \"cuda\", opening: "));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("no reason given")));
}

}  // namespace
}  // namespace rnnserve
