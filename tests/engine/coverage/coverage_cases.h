// SPDX-License-Identifier: Apache-2.0
// The rows of docs/coverage.md: small operators, each with one attribute, input or option away from its default.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/op/op_spec.h"
#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

struct CoverageCase {
  std::string op;    // LSTM
  std::string what;  // clip
  OperatorDef def = {};
  std::vector<OwnedTensor> inputs = {};  // float32
  std::vector<std::string> wanted = {};  // empty: all
  RunOptions options = {};
  EngineOptions engine_options = {};

  std::vector<OwnedTensor> InputsOf(DataType type) const;
};

std::vector<CoverageCase> CoverageCases();

}  // namespace rnnserve
