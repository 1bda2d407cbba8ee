// SPDX-License-Identifier: Apache-2.0
// Files made to hurt are refused with a reason by every reader. That this takes little time and memory shows in the
// integration tests, which limit both (test_inspect.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/op/op_spec.h"
#include "onnx_file/inspect.h"
#include "onnx_file/loader.h"
#include "tests/onnx_file/hostile_files.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

absl::Status Load(const Folder& folder) {
  const auto loaded = LoadLayer(folder);
  return loaded.ok() ? ResolveOperator(loaded->op, loaded->weights).status() : loaded.status();
}

TEST(OnnxHostile, TheLoaderRefusesWithTheReason) {
  const TemporaryFolder folder;
  for (const HostileFile& file : HostileFiles()) {
    folder.Write("model.onnx", file.bytes);
    const absl::Status status = Load(Folder::Open(folder.path()).value());
    EXPECT_FALSE(status.ok()) << file.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file.reason)) << file.name;
    EXPECT_LT(status.message().size(), 2000U) << file.name;
  }
}

TEST(OnnxHostile, InspectionEndsWithAReason) {
  const TemporaryFolder folder;
  for (const HostileFile& file : HostileFiles()) {
    folder.Write("model.onnx", file.bytes);
    const auto found = InspectOnnx(Folder::Open(folder.path()).value(), "model.onnx");
    if (!found.ok()) {
      EXPECT_THAT(std::string(found.status().message()), testing::Not(testing::IsEmpty())) << file.name;
      continue;
    }
    EXPECT_FALSE(found->loads.ok()) << file.name;
    for (const InspectedNode& node : found->nodes) {
      EXPECT_EQ(node.status.ok(), node.spec.has_value()) << file.name;
      EXPECT_EQ(node.status.ok(), node.status.message().empty()) << file.name;
    }
  }
}

TEST(OnnxHostile, TooManyRecurrentNodesAreNotListed) {
  for (const HostileFile& file : HostileFiles()) {
    if (file.name != "many recurrent nodes") continue;
    const TemporaryFolder folder;
    folder.Write("model.onnx", file.bytes);
    const auto found = InspectOnnx(Folder::Open(folder.path()).value(), "model.onnx");
    EXPECT_THAT(std::string(found.status().message()), HasSubstr("more than 4096 recurrent nodes"));
  }
}

}  // namespace
}  // namespace rnnserve
