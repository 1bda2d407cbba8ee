// SPDX-License-Identifier: Apache-2.0
// recurrent-operators.md, section 1: which versions exist and which opset means which.
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"

namespace rnnserve {
namespace {

Example ExampleOf(const std::string& op_type, int64_t version) {
  return op_type.ends_with("Sequence") ? OpenVinoExample(op_type, version) : OnnxExample(op_type, version);
}

TEST(VersionTest, ExactVersionsExistAsInTheTable) {
  const std::map<std::string, std::vector<int64_t>> table = {
      {"LSTM", {1, 7, 14, 22}}, {"GRU", {1, 3, 7, 14, 22}}, {"RNN", {1, 7, 14, 22}},
      {"LSTMSequence", {1, 5}}, {"GRUSequence", {5}},       {"RNNSequence", {5}},
  };
  for (const auto& [op_type, versions] : table) {
    for (int64_t version = -1; version <= 30; ++version) {
      const absl::StatusOr<OpSpec> spec = Resolve(ExampleOf(op_type, version));
      const bool exists = std::find(versions.begin(), versions.end(), version) != versions.end();
      ASSERT_EQ(spec.ok(), exists) << op_type << "-" << version << " " << spec.status();
      if (exists) {
        EXPECT_EQ(spec->version, version);
        EXPECT_EQ(spec->op_type, op_type);
      } else {
        EXPECT_EQ(FieldOf(spec.status()), "operator.version");
        EXPECT_NE(std::string(spec.status().message()).find("does not exist"), std::string::npos) << spec.status();
      }
    }
  }
}

TEST(VersionTest, OpsetsMeanTheNewestVersionNotAboveThem) {
  struct Row {
    const char* op_type;
    int64_t opset, version;
  };
  const Row rows[] = {
      {"LSTM", 1, 1},         {"LSTM", 2, 1},          {"LSTM", 3, 1},         {"LSTM", 6, 1},
      {"LSTM", 7, 7},         {"LSTM", 13, 7},         {"LSTM", 14, 14},       {"LSTM", 21, 14},
      {"LSTM", 22, 22},       {"LSTM", 25, 22},        {"GRU", 1, 1},          {"GRU", 2, 1},
      {"GRU", 3, 3},          {"GRU", 6, 3},           {"GRU", 7, 7},          {"GRU", 13, 7},
      {"GRU", 14, 14},        {"GRU", 21, 14},         {"GRU", 22, 22},        {"RNN", 1, 1},
      {"RNN", 6, 1},          {"RNN", 7, 7},           {"RNN", 13, 7},         {"RNN", 14, 14},
      {"RNN", 22, 22},        {"RNN", 100, 22},        {"LSTMSequence", 1, 1}, {"LSTMSequence", 4, 1},
      {"LSTMSequence", 5, 5}, {"LSTMSequence", 14, 5}, {"GRUSequence", 5, 5},  {"GRUSequence", 9, 5},
      {"RNNSequence", 5, 5},
  };
  for (const Row& row : rows) {
    Example example = ExampleOf(row.op_type, 0);
    example.op.version.reset();
    example.op.opset = row.opset;
    const absl::StatusOr<OpSpec> spec = Resolve(example);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->version, row.version) << row.op_type << " in opset " << row.opset;
  }
}

TEST(VersionTest, OpsetsBeforeTheOperatorAreRefused) {
  for (const auto& [op_type, opset] : {std::pair("LSTM", 0), std::pair("GRU", -5), std::pair("GRUSequence", 4),
                                       std::pair("RNNSequence", 1), std::pair("LSTMSequence", 0)}) {
    Example example = ExampleOf(op_type, 0);
    example.op.version.reset();
    example.op.opset = opset;
    EXPECT_EQ(FieldOf(Resolve(example).status()), "operator.opset") << op_type << " " << opset;
  }
}

TEST(VersionTest, BothDomainsOfOnnxAreTheSame) {
  Example example = OnnxExample("GRU", 14);
  const std::string text = Resolve(example)->CanonicalText();
  example.op.domain = "ai.onnx";
  EXPECT_EQ(Resolve(example)->CanonicalText(), text);
}

}  // namespace
}  // namespace rnnserve
