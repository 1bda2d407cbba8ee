// SPDX-License-Identifier: Apache-2.0
// One case of cuDNN's RNN set beside the reference, and what is expected of it.
#pragma once

#include <string>
#include <vector>

#include "tests/engine/cuda/selftest/bare_rnn.h"

namespace rnnserve::selftest {

const char* KindName(const RnnCase& c);
RnnCase Case(int kind, bool relu = false);
std::vector<RnnCase> AllCells();

// Distance over the valid positions of y and over the final states; infinite if the case did not run.
double Error(const RnnCase& c, const RnnResult& got, const RnnResult& want);
// Runs the case and expects the reference's values.
RnnResult ExpectRight(const std::string& name, const RnnCase& c, double tolerance);
// Runs the case and expects cuDNN to refuse it; says where and with what.
void ExpectRefused(const std::string& name, const RnnCase& c);

}  // namespace rnnserve::selftest
