// SPDX-License-Identifier: Apache-2.0
// An engine under test, with its data type and tolerance, and the comparisons that every suite over engines uses.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/support/compare.h"
#include "tests/engine/support/naive_operator.h"
#include "tests/engine/support/random_operator.h"
#include "tests/engine/support/run_operator.h"

namespace rnnserve {

struct EngineCase {
  std::string name;
  std::unique_ptr<Engine> (*make)() = nullptr;
  DataType type = DataType::kFloat;
  double tolerance = 1e-5;  // against exact arithmetic, relative above 1 and absolute below
  bool bit_exact =
      false;  // the same bits whatever shares the batch and however sequences are cut, without asking for it
  EngineOptions options = {};  // what every request asks for
};

// The tolerances of recurrent-operators.md, section 11.
inline std::vector<EngineCase> EngineCases(const std::string& name, std::unique_ptr<Engine> (*make)(),
                                           bool bit_exact = false) {
  return {{name, make, DataType::kFloat, 1e-5, bit_exact},
          {name, make, DataType::kDouble, 1e-12, bit_exact},
          {name, make, DataType::kFloat16, 2e-3, bit_exact},
          {name, make, DataType::kBFloat16, 1e-2, bit_exact}};
}

inline std::string EngineCaseName(const testing::TestParamInfo<EngineCase>& info) {
  return info.param.name + "_" + std::string(DataTypeName(info.param.type));
}

inline void PrintTo(const EngineCase& engine_case, std::ostream* out) {
  *out << engine_case.name << " " << DataTypeName(engine_case.type);
}

class EngineSuite : public testing::TestWithParam<EngineCase> {
 protected:
  // Expects OK or UNIMPLEMENTED; an empty map for the latter.
  OutputMap Run(const OperatorDef& op, const std::vector<OwnedTensor>& inputs, RunSettings settings = {},
                const std::vector<std::string>& wanted = {}) {
    if (settings.engine_options == EngineOptions()) settings.engine_options = GetParam().options;
    absl::StatusOr<OutputMap> outputs = RunOperator(*engine_, op, inputs, wanted, settings);
    if (outputs.ok()) {
      ++operators_;
      return *std::move(outputs);
    }
    EXPECT_EQ(outputs.status().code(), absl::StatusCode::kUnimplemented) << outputs.status();
    return {};
  }
  OutputMap Run(const RandomOperator& op, const RunSettings& settings = {}) { return Run(op.op, op.inputs, settings); }

  // An operator that the engine supports. Where thousands in a row are refused there is none to be had.
  RandomOperator Draw(const Pinned& pinned = {}) {
    int64_t refused = 0;
    const auto accepts = [&](const RandomOperator& op) {
      if (SupportsOperator(*engine_, op.op, op.inputs, GetParam().options).ok()) return true;
      ++refused_;
      return ++refused == 5000;
    };
    RandomOperator op = MakeTameOperator(random_, type(), pinned, accepts);
    EXPECT_LT(refused, 5000) << "the engine supports none of these operators";
    return op;
  }

  absl::Status SupportsDefaultCell(const EngineOptions& options) const {
    CellSpec spec;
    spec.data_type = type();
    spec.input_size = spec.hidden_size = 4;
    const Activation sigmoid = {ActivationKind::kSigmoid}, tanh = {ActivationKind::kTanh};
    spec.activations = {sigmoid, tanh, tanh};
    return engine_->Supports(spec, options);
  }

  void ExpectNear(const OwnedTensor& got, const OwnedTensor& want) {
    EXPECT_TRUE(TensorsNear(got, want, GetParam().tolerance, &tally_));
  }
  // For results that differ only by rounding inside; by nothing in a bit-exact engine.
  void ExpectSame(const OwnedTensor& got, const OwnedTensor& want) {
    if (GetParam().bit_exact) {
      tally_.values += static_cast<int64_t>(got.bytes.size() / ByteSize(got.type));
      EXPECT_TRUE(TensorsIdentical(got, want));
    } else {
      ExpectNear(got, want);
    }
  }
  void ExpectSame(const OutputMap& got, const OutputMap& want) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [name, tensor] : want) ExpectSame(got.at(name), tensor);
  }

  // Where the engine supports the operator, compares every output with the naive oracle.
  void ExpectMatchesOracle(const RandomOperator& op, const RunSettings& settings = {}) {
    SCOPED_TRACE(op.Describe());
    const OutputMap outputs = Run(op, settings);
    if (outputs.empty()) return;
    const auto want = RunNaively(op, settings.options);
    ASSERT_EQ(outputs.size(), want.size());
    for (const auto& [name, values] : want) {
      EXPECT_TRUE(ValuesNear(outputs.at(name).Values(), values, GetParam().tolerance, &tally_)) << "in " << name;
    }
  }

  DataType type() const { return GetParam().type; }

  void TearDown() override {
    std::printf("           %lld operators (%lld refused), %lld values compared, worst error %.2g\n",
                static_cast<long long>(operators_), static_cast<long long>(refused_),
                static_cast<long long>(tally_.values), tally_.worst);
    EXPECT_TRUE(IsSkipped() || operators_ >= kFewestOperators) << "the engine supports too few operators for this test";
  }

  std::unique_ptr<Engine> engine_ = GetParam().make();
  std::mt19937_64 random_{20240707};
  Tally tally_;
  int64_t operators_ = 0;  // that ran
  int64_t refused_ = 0;    // drawn, and not supported

  static constexpr int64_t kFewestOperators = 3;
};

}  // namespace rnnserve
