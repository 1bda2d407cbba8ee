// SPDX-License-Identifier: Apache-2.0
// Layouts through Reshape where the file says how many steps and rows there are: exporters write such shapes as
// numbers.
#include "onnx_file/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rnnserve {
namespace {

constexpr int kT = Symbols::kT, kN = Symbols::kN;

// Of [T, N, 16] or, with rows first, [N, T, 16].
class LayoutTest : public testing::Test {
 protected:
  // As many as the file says.
  LayoutTest(std::optional<int64_t> steps, std::optional<int64_t> rows) {
    EXPECT_TRUE(symbols_.Unify(kT, symbols_.New(steps)));
    EXPECT_TRUE(symbols_.Unify(kN, symbols_.New(rows)));
  }

  std::string After(const std::vector<Size>& shape, bool rows_first = false) {
    Layout layout({{{.symbol = rows_first ? kN : kT}}, {{.symbol = rows_first ? kT : kN}}, {{.size = 16}}});
    const absl::Status status = layout.Reshape(symbols_, shape, false);
    return status.ok() ? layout.Text(symbols_) : std::string(status.message());
  }
  std::string After(const std::vector<int64_t>& shape, bool rows_first = false) {
    return After(std::vector<Size>(shape.begin(), shape.end()), rows_first);
  }

  static Size Of(int symbol) {
    Size size;
    size.symbols = {symbol};
    return size;
  }

  Symbols symbols_;
};

struct OneRow : LayoutTest {
  OneRow() : LayoutTest(6, 1) {}
};
struct OneRowOfAnySteps : LayoutTest {
  OneRowOfAnySteps() : LayoutTest({}, 1) {}
};
struct OneStepOfOneRow : LayoutTest {
  OneStepOfOneRow() : LayoutTest(1, 1) {}
};
struct SixStepsOfTwoRows : LayoutTest {
  SixStepsOfTwoRows() : LayoutTest(6, 2) {}
};

TEST_F(OneRow, TheRowIsTheAxisOfOne) {
  EXPECT_EQ(After({6, 1, 16}), "[T, N, 16]");
  EXPECT_EQ(After({-1, 1, 16}), "[T, N, 16]");
  EXPECT_EQ(After({6, -1, 16}), "[T, N, 16]");
  EXPECT_EQ(After({6, 1, -1}), "[T, N, 16]");
  EXPECT_EQ(After({6, 1, 2, 8}), "[T, N, 2, 8]");
  EXPECT_EQ(After({1, 6, 16}, true), "[N, T, 16]");
  EXPECT_EQ(After({1, -1, 16}, true), "[N, T, 16]");
}

TEST_F(OneRow, RowsAndStepsAreOneAxisWhereTheShapeHasNoOther) {
  EXPECT_EQ(After({6, 16}), "[T*N, 16]");
  EXPECT_EQ(After({-1, 16}), "[T*N, 16]");
  EXPECT_EQ(After({6, 2, 8}), "[T*N, 2, 8]");
  EXPECT_EQ(After({6, 16}, true), "[N*T, 16]");
  EXPECT_EQ(After({-1, 16}, true), "[N*T, 16]");
}

TEST_F(OneRowOfAnySteps, SizesThatAreComputed) {
  EXPECT_EQ(After({Of(kT), Size(1), Size(16)}), "[T, N, 16]");
  EXPECT_EQ(After({Of(kT), Of(kN), Size(16)}), "[T, N, 16]");
  EXPECT_EQ(After({Of(kN), Of(kT), Size(16)}, true), "[N, T, 16]");
  EXPECT_EQ(After({Of(kT), Size(16)}), "[T*N, 16]");
  EXPECT_EQ(After({Size(1), Of(kT), Size(-1)}, true), "[N, T, 16]");
}

TEST_F(OneStepOfOneRow, EachIsAnAxisOfOne) {
  EXPECT_EQ(After({1, 1, 16}), "[T, N, 16]");
  EXPECT_EQ(After({1, 1, -1}), "[T, N, 16]");
  EXPECT_EQ(After({1, 16}), "[T*N, 16]");
  EXPECT_EQ(After({-1, 16}), "[T*N, 16]");
}

TEST_F(SixStepsOfTwoRows, WhatFitsNothingIsRefused) {
  EXPECT_EQ(After({6, 2, 16}), "[T, N, 16]");
  EXPECT_EQ(After({12, 16}), "[T*N, 16]");
  EXPECT_THAT(After({2, 6, 16}), testing::HasSubstr("makes another axis 0 of [T, N, 16]"));
  EXPECT_THAT(After({6, 2}), testing::HasSubstr("holds only a part"));
}

}  // namespace
}  // namespace rnnserve
