// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/packed_weights.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/onednn/call_plan.h"
#include "engine/onednn/one_thread_team.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::onednn {
namespace {

class PackedWeightsTest : public testing::TestWithParam<CellKind> {};

// The layout of a GRU's weights changes with the number of rows: a server that sees all of them must not keep all.
TEST_P(PackedWeightsTest, TakeNoMoreThanTheySay) {
  const CellSpec spec = cpu::DefaultSpec(GetParam(), DataType::kFloat, 96, 160);
  const OneThreadTeam team;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  PackedWeights weights(engine, cpu::RandomCell(spec, 1));
  std::map<const void*, size_t> held;
  for (size_t rows = 1; rows <= kGroupRows; rows += 3) {
    const auto call_rows = static_cast<int64_t>(RowsOfCall(rows));
    for (int64_t steps = 1; steps <= kMostSteps; steps *= 2) {
      std::optional<PackedWeights::Pair> pair;
      for (const WeightLayout layout : {WeightLayout::kFastest, WeightLayout::kPlain}) {
        if (pair.has_value()) break;
        pair = weights.Find(MakeRecurrence(engine, spec, call_rows, steps, layout), layout);
      }
      ASSERT_TRUE(pair.has_value());
      for (const Memory& memory : {pair->w, pair->r}) held[memory.get_data_handle()] = memory.get_desc().get_size();
    }
  }
  int64_t bytes = static_cast<int64_t>(weights.bias().get_desc().get_size());
  for (const auto& [handle, size] : held) bytes += static_cast<int64_t>(size);
  // Rows of a layout may be padded a little.
  EXPECT_LE(bytes, weights.most_bytes() + weights.most_bytes() / 4);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PackedWeightsTest, testing::Values(CellKind::kLstm, CellKind::kGru, CellKind::kRnn));

}  // namespace
}  // namespace rnnserve::onednn
