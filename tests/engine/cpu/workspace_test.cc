// SPDX-License-Identifier: Apache-2.0
// Scratch memory has a bound that does not grow with the length of the sequences.
#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.h"
#include "engine/cpu/cpu_program.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

constexpr size_t kStretch = size_t{1} << 20;

// h, twice, and c of float32.
size_t States(size_t rows, size_t units) { return 3 * rows * RowStride<float>(units) * sizeof(float); }

class WorkspaceTest : public testing::Test {
 protected:
  size_t BytesAfter(const CellSpec& spec, size_t rows, int64_t steps) {
    const ProgramPtr program = MakeCpuEngine()->Compile(RandomCell(spec, 1), {.deterministic = true}).value();
    Sequences sequences(*program, spec);
    for (size_t k = 0; k < rows; ++k) sequences.Add(steps, static_cast<uint32_t>(k));
    const auto workspace = program->NewWorkspace();
    EXPECT_TRUE(program->Advance(sequences.All(), *workspace).ok());
    return static_cast<const CpuWorkspace<float>&>(*workspace).bytes();
  }
};

TEST_F(WorkspaceTest, BoundedInTime) {
  const CellSpec spec = DefaultSpec(CellKind::kLstm, DataType::kFloat, 24, 32);
  for (const int64_t steps : {1, 64, 1000, 4096}) {
    EXPECT_LE(BytesAfter(spec, 3, steps), States(3, 32) + kStretch) << steps;
  }
}

TEST_F(WorkspaceTest, BoundedForWideInputs) {
  const CellSpec spec = DefaultSpec(CellKind::kRnn, DataType::kFloat16, 5000, 4);
  EXPECT_LE(BytesAfter(spec, 2, 300), States(2, 4) + kStretch);
}

TEST_F(WorkspaceTest, ManyRowsCostTheirStatesOnly) {
  const CellSpec spec = DefaultSpec(CellKind::kLstm, DataType::kFloat, 8, 64);
  EXPECT_LE(BytesAfter(spec, 1000, 20), States(1000, 64) + kStretch);
}

}  // namespace
}  // namespace rnnserve::cpu
