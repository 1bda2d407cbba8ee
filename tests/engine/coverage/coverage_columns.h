// SPDX-License-Identifier: Apache-2.0
// The columns of docs/coverage.md: engines and types. A new engine is a few more of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/coverage/coverage_cases.h"

namespace rnnserve {

struct CoverageColumn {
  std::string engine;
  std::string type;  // as the document calls it
  DataType data_type = DataType::kFloat;
  bool reduced_precision = false;  // allowed
  double tolerance = 0;            // against the reference engine
  // The engine's own answer on a machine that has all it can make use of.
  std::function<absl::Status(const CellSpec&, const EngineOptions&)> supports = {};
  std::unique_ptr<Engine> (*make)() = nullptr;  // null: answers, but cannot run here

  EngineOptions OptionsOf(const CoverageCase& row) const;
};

std::vector<CoverageColumn> CoverageColumns();

// What a column says to a row: OK; the engine's reason; or why there is no such operator in this type
// (INVALID_ARGUMENT).
absl::Status CoverageAnswer(const CoverageCase& row, const CoverageColumn& column);

}  // namespace rnnserve
