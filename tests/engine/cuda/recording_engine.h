// SPDX-License-Identifier: Apache-2.0
// The reference engine, with everything that went in and came out of it written down for cuda_selftest.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/cuda/selftest/case_file.h"

namespace rnnserve::cuda {

// Each Advance adds a call to `calls`, which outlives the engine. One thread.
std::unique_ptr<Engine> MakeRecordingEngine(std::vector<selftest::RecordedCall>* calls, double tolerance);

}  // namespace rnnserve::cuda
