// SPDX-License-Identifier: Apache-2.0
#include "engine/cell.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace rnnserve {
namespace {

struct Parts {
  CellSpec spec;
  CellWeights<float> weights;
};

Parts Lstm() {
  Parts parts;
  parts.spec.input_size = 1;
  parts.spec.hidden_size = 1;
  parts.spec.has_peephole = true;
  parts.weights = {{1, 2, 3, 4}, {5, 6, 7, 8}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 2, 3}};
  return parts;
}

std::string Key(const Parts& parts) { return Cell(parts.spec, parts.weights).key(); }

TEST(CellTest, EqualCellsHaveEqualKeys) {
  EXPECT_EQ(Key(Lstm()), Key(Lstm()));
  EXPECT_EQ(Key(Lstm()).size(), 32u);
}

TEST(CellTest, EveryDifferenceChangesTheKey) {
  const std::function<void(Parts&)> changes[] = {
      [](Parts&) {},
      [](Parts& p) { p.spec.data_type = DataType::kFloat16; },
      [](Parts& p) { p.spec.data_type = DataType::kBFloat16; },
      [](Parts& p) { p.spec.activations[2].kind = ActivationKind::kRelu; },
      [](Parts& p) { p.spec.activations[0].alpha = 0.5; },
      [](Parts& p) { p.spec.activations[0].beta = 0.5; },
      [](Parts& p) { p.spec.clip = 1; },
      [](Parts& p) { p.spec.clip_cell_input = true; },
      [](Parts& p) { p.spec.input_forget = true; },
      [](Parts& p) { p.spec.linear_before_reset = true; },
      [](Parts& p) {
        p.spec.has_peephole = false;
        p.weights.p.clear();
      },
      [](Parts& p) { p.weights.w[3] = 9; },
      [](Parts& p) { p.weights.r[0] = 9; },
      [](Parts& p) { p.weights.wb[0] = 9; },
      [](Parts& p) { p.weights.rb[0] = 9; },
      [](Parts& p) { p.weights.p[2] = 9; },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    Parts parts = Lstm();
    change(parts);
    keys.insert(Key(parts));
  }
  EXPECT_EQ(keys.size(), std::size(changes));
}

TEST(CellTest, CountsItsBytes) {
  const Parts parts = Lstm();
  EXPECT_EQ(Cell(parts.spec, parts.weights).weight_bytes(), (4 + 4 + 4 + 4 + 3) * 4);
}

}  // namespace
}  // namespace rnnserve
