// SPDX-License-Identifier: Apache-2.0
// Keeps docs/coverage.md true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/reference/reference_engine.h"
#include "tests/engine/coverage/coverage_columns.h"
#include "tests/engine/coverage/coverage_document.h"
#include "tests/engine/support/compare.h"
#include "tests/engine/support/run_operator.h"

namespace rnnserve {
namespace {

TEST(Coverage, TheDocumentIsWhatTheEnginesSay) {
  std::ifstream file(RNNSERVE_COVERAGE_DOCUMENT);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(text == CoverageDocument())
      << "docs/coverage.md is out of date; build target coverage and write its output there";
}

// The reference has the weights as given.
double NarrowTolerance(const CoverageCase& row) {
  return row.engine_options.weights == WeightType::kAsGiven ? 0 : 3e-2;
}

class CoverageColumnTest : public testing::TestWithParam<size_t> {
 protected:
  absl::StatusOr<OutputMap> Run(const Engine& engine, const CoverageCase& row, const EngineOptions& options) {
    RunSettings settings;
    settings.options = row.options;
    settings.engine_options = options;
    return RunOperator(engine, row.def, row.InputsOf(column_.data_type), row.wanted, settings);
  }

  const CoverageColumn column_ = CoverageColumns()[GetParam()];
  const std::unique_ptr<Engine> engine_ = column_.make(), reference_ = MakeReferenceEngine();
};

TEST_P(CoverageColumnTest, EveryYesIsTrueAndEveryNoHasItsReason) {
  int yes = 0, no = 0, lacking = 0;
  for (const CoverageCase& row : CoverageCases()) {
    SCOPED_TRACE(row.op + ", " + row.what);
    const absl::Status answer = CoverageAnswer(row, column_);
    const absl::StatusOr<OutputMap> got = Run(*engine_, row, column_.OptionsOf(row));
    if (!answer.ok()) {
      EXPECT_EQ(got.status(), answer);
      EXPECT_FALSE(answer.message().empty());
      ++no;
      continue;
    }
    if (absl::IsUnimplemented(got.status())) {
      EXPECT_THAT(std::string(got.status().message()), testing::HasSubstr("this CPU lacks"));
      ++lacking;
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.status();
    const absl::StatusOr<OutputMap> want = Run(*reference_, row, {});
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_EQ(got->size(), want->size());
    for (const auto& [name, tensor] : *want) {
      EXPECT_TRUE(TensorsNear(got->at(name), tensor, std::max(column_.tolerance, NarrowTolerance(row)))) << name;
    }
    ++yes;
  }
  std::printf("           %d yes, %d no, %d for want of instructions\n", yes, no, lacking);
  EXPECT_GT(yes + no + lacking, 100);
}

// Those whose engine can run here.
std::vector<size_t> RunningColumns() {
  const std::vector<CoverageColumn> columns = CoverageColumns();
  std::vector<size_t> running;
  for (size_t k = 0; k < columns.size(); ++k) {
    if (columns[k].make != nullptr) running.push_back(k);
  }
  return running;
}

INSTANTIATE_TEST_SUITE_P(All, CoverageColumnTest, testing::ValuesIn(RunningColumns()), [](const auto& test) {
  const CoverageColumn column = CoverageColumns()[test.param];
  return column.engine + "_" + column.type.substr(0, column.type.find(' ')) +
         (column.reduced_precision ? "_reduced" : "");
});

}  // namespace
}  // namespace rnnserve
