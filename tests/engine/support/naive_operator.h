// SPDX-License-Identifier: Apache-2.0
// A second opinion on whole operators: works on the tensors as they were sent, with an index function per tensor, in
// long double, and shares nothing with engine/. It is written from recurrent-operators.md, sections 2, 5, 6, 9, 10
// and 13.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/support/random_operator.h"

namespace rnnserve {

// Outputs by name (the operator's own names), row-major, not rounded.
std::map<std::string, std::vector<double>> RunNaively(const RandomOperator& op, const RunOptions& options = {});

// Drawn again until no output exceeds 100: unbounded functions in gates can explode, and then say nothing about
// engines. Only operators that `accepts` are considered, if it is given.
RandomOperator MakeTameOperator(std::mt19937_64& random, DataType type, const Pinned& pinned = {},
                                const std::function<bool(const RandomOperator&)>& accepts = nullptr);

}  // namespace rnnserve
