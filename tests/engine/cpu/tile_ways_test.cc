// SPDX-License-Identifier: Apache-2.0
// Programs whose products go through tiles or not, as is faster: each way is taken, and each is right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "engine/cpu/tile_product.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

TEST(TileWaysTest, ProgramsThatMayVaryHaveParts) {
  const CellPtr cell = RandomCell(DefaultSpec(CellKind::kLstm, DataType::kFloat, 64, 64), 3);
  const auto bytes = [&](bool deterministic) {
    return MakeCpuEngine()->Compile(cell, {.deterministic = deterministic}).value()->packed_bytes();
  };
  constexpr int64_t kPartsOfWeights = 6 * 4 * 64 * (64 + 64);
  EXPECT_EQ(bytes(false) - bytes(true), HasTiles() ? kPartsOfWeights : 0);
}

void ExpectEachWayIsRight(CellKind kind, int64_t rows, int64_t steps, int64_t width = 64,
                          const EngineOptions& options = {}) {
  constexpr int64_t kRuns = 40;
  const CellPtr cell = RandomCell(DefaultSpec(kind, DataType::kFloat, width, width), 3);
  EngineOptions deterministic = options;
  deterministic.deterministic = true;
  const ProgramPtr may_vary = MakeCpuEngine()->Compile(cell, options).value();
  const ProgramPtr exact = MakeCpuEngine()->Compile(cell, deterministic).value();
  // Rows of bfloat16 may be rounded the other way.
  const float tolerance = options.weights == WeightType::kBFloat16 ? 5e-3F : 1e-5F;
  std::mt19937 random(9);
  std::vector<float> x, y(rows * steps * width), want(y.size());
  for (const double value : RandomValues(random, y.size(), 1.0)) x.push_back(static_cast<float>(value));
  const auto run = [&](const Program& program, Workspace& workspace, std::vector<float>& to) {
    std::vector<std::unique_ptr<State>> states;
    std::vector<SequenceSlice> slices;
    for (int64_t row = 0; row < rows; ++row) {
      states.push_back(program.NewState());
      slices.push_back({.x = reinterpret_cast<const std::byte*>(x.data() + row * width),
                        .x_stride = rows * width * static_cast<int64_t>(sizeof(float)),
                        .y = reinterpret_cast<std::byte*>(to.data() + row * width),
                        .y_stride = rows * width * static_cast<int64_t>(sizeof(float)),
                        .steps = steps,
                        .before = nullptr,
                        .after = states.back().get()});
    }
    ASSERT_TRUE(program.Advance(slices, workspace).ok());
  };
  const std::unique_ptr<Workspace> workspace = may_vary->NewWorkspace(), of_exact = exact->NewWorkspace();
  run(*exact, *of_exact, want);
  int64_t same = 0;
  for (int64_t k = 0; k < kRuns; ++k) {
    std::fill(y.begin(), y.end(), 7.0F);
    run(*may_vary, *workspace, y);
    if (y == want) ++same;
    for (size_t n = 0; n < y.size(); ++n) ASSERT_NEAR(y[n], want[n], tolerance) << "run " << k;
  }
  EXPECT_GT(same, 0);  // one of the ways is that of `deterministic`
  EXPECT_EQ(same < kRuns, HasTiles());
}

TEST(TileWaysTest, EachWayIsTriedAndRight) {
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    SCOPED_TRACE(static_cast<int>(kind));
    ExpectEachWayIsRight(kind, 17, 3);
    ExpectEachWayIsRight(kind, 17, 2, 256);  // functions run during products with R
    ExpectEachWayIsRight(kind, 35, 1, 256);  // with W too
    ExpectEachWayIsRight(kind, 8, 1);
    ExpectEachWayIsRight(kind, 1, 20);  // x alone may go by parts
  }
}

TEST(TileWaysTest, TheyAreWherePanelsGoBackAndForth) {
  ExpectEachWayIsRight(CellKind::kLstm, 9, 4, 260);
  ExpectEachWayIsRight(CellKind::kGru, 17, 4, 260);
  ExpectEachWayIsRight(CellKind::kRnn, 9, 4, 430);
}

TEST(TileWaysTest, OneRowOfBFloat16GoesEachWay) {
  const EngineOptions options = {.allow_reduced_precision = true, .weights = WeightType::kBFloat16};
  ExpectEachWayIsRight(CellKind::kLstm, 1, 1, 256, options);
  ExpectEachWayIsRight(CellKind::kLstm, 1, 5, 256, options);
  ExpectEachWayIsRight(CellKind::kGru, 1, 5, 256, options);
  ExpectEachWayIsRight(CellKind::kRnn, 1, 5, 512, options);
}

}  // namespace
}  // namespace rnnserve::cpu
