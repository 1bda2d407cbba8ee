// SPDX-License-Identifier: Apache-2.0
// States and walks: forks, in-place, zeros, strides.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/cpu/cpu_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

class StatesTest : public testing::Test {
 protected:
  StatesTest() { Use(DefaultSpec(CellKind::kLstm, DataType::kFloat, 3, 5)); }

  void Use(const CellSpec& spec) {
    spec_ = spec;
    program_ = MakeCpuEngine()->Compile(RandomCell(spec, 5), {}).value();
    workspace_ = program_->NewWorkspace();
  }

  void Run(const std::vector<SequenceSlice>& slices) { ASSERT_TRUE(program_->Advance(slices, *workspace_).ok()); }

  std::vector<float> H(const State& state) const {
    std::vector<float> h(static_cast<size_t>(spec_.hidden_size));
    program_->ExportState(state, DataType::kFloat, reinterpret_cast<std::byte*>(h.data()), nullptr);
    return h;
  }

  CellSpec spec_;
  ProgramPtr program_;
  std::unique_ptr<Workspace> workspace_;
};

TEST_F(StatesTest, ExportInvertsImport) {
  const std::vector<float> h = {1, 2, 3, 4, 5}, c = {-1, -2, -3, -4, -5};
  const auto state = program_->NewState();
  program_->ImportState(DataType::kFloat, reinterpret_cast<const std::byte*>(h.data()),
                        reinterpret_cast<const std::byte*>(c.data()), *state);
  std::vector<float> h_out(5), c_out(5);
  program_->ExportState(*state, DataType::kFloat, reinterpret_cast<std::byte*>(h_out.data()),
                        reinterpret_cast<std::byte*>(c_out.data()));
  EXPECT_EQ(h_out, h);
  EXPECT_EQ(c_out, c);
  program_->ImportState(DataType::kFloat, nullptr, nullptr, *state);
  EXPECT_EQ(H(*state), std::vector<float>(5, 0.0f));
}

TEST_F(StatesTest, ForksLeaveTheirOriginAlone) {
  // More rows than a group holds.
  constexpr size_t kForks = 300;
  Sequences sequences(*program_, spec_);
  for (size_t k = 0; k < kForks; ++k) sequences.Add(4, static_cast<uint32_t>(k % 3));
  const auto origin = program_->NewState();
  const std::vector<float> h = {1, 2, 3, 4, 5};
  const auto* bytes = reinterpret_cast<const std::byte*>(h.data());
  program_->ImportState(DataType::kFloat, bytes, bytes, *origin);
  std::vector<SequenceSlice> slices = sequences.All();
  for (SequenceSlice& slice : slices) slice.before = origin.get();
  Run(slices);
  EXPECT_EQ(H(*origin), h);
  for (size_t k = 3; k < kForks; ++k) ASSERT_EQ(sequences.Results(k), sequences.Results(k % 3));
}

TEST_F(StatesTest, ForksReadTheirOriginBeforeItMoves) {
  constexpr size_t kForks = 300;
  Sequences sequences(*program_, spec_);
  for (size_t k = 0; k < kForks; ++k) sequences.Add(4, 1);
  std::vector<SequenceSlice> slices = sequences.All();
  for (SequenceSlice& slice : slices) slice.before = slices[0].after;
  Run(slices);
  for (size_t k = 1; k < kForks; ++k) ASSERT_EQ(sequences.Results(k), sequences.Results(0)) << k;
}

TEST_F(StatesTest, NoStateBeforeMeansZeros) {
  Sequences sequences(*program_, spec_);
  sequences.Add(6, 1);
  sequences.Add(6, 1);
  program_->ImportState(DataType::kFloat, nullptr, nullptr, *sequences.at(1).state);
  std::vector<SequenceSlice> slices = sequences.All();
  slices[0].before = nullptr;
  Run(slices);
  EXPECT_EQ(sequences.Results(0), sequences.Results(1));
}

TEST_F(StatesTest, NegativeStridesWalkBackwards) {
  Sequences forward(*program_, spec_), backward(*program_, spec_);
  forward.Add(6, 1);
  backward.Add(6, 1);
  std::vector<std::byte>& x = backward.at(0).x;
  const size_t row = 3 * sizeof(float);
  for (size_t step = 0; step < 6; ++step) {
    std::copy_n(forward.at(0).x.begin() + 1 + static_cast<std::ptrdiff_t>(step * row), row,
                x.begin() + 1 + static_cast<std::ptrdiff_t>((5 - step) * row));
  }
  SequenceSlice slice = backward.Slice(0, 5, 6);
  slice.x_stride = -slice.x_stride;
  slice.y_stride = -slice.y_stride;
  Run(forward.All());
  Run({slice});
  const std::vector<double> y = forward.Y(0);
  const std::vector<double> reversed = backward.Y(0);
  for (size_t step = 0; step < 6; ++step) {
    for (size_t unit = 0; unit < 5; ++unit) EXPECT_EQ(y[step * 5 + unit], reversed[(5 - step) * 5 + unit]);
  }
}

TEST_F(StatesTest, OutputsMayBeUnwanted) {
  Sequences wanted(*program_, spec_), unwanted(*program_, spec_);
  wanted.Add(6, 1);
  unwanted.Add(6, 1);
  std::vector<SequenceSlice> slices = unwanted.All();
  slices[0].y = nullptr;
  Run(wanted.All());
  Run(slices);
  EXPECT_EQ(H(*wanted.at(0).state), H(*unwanted.at(0).state));
}

TEST_F(StatesTest, NoInputsLeaveTheRecurrence) {
  Use(DefaultSpec(CellKind::kGru, DataType::kFloat, 0, 5));
  Sequences sequences(*program_, spec_);
  sequences.Add(3, 1);
  std::vector<SequenceSlice> slices = sequences.All();
  slices[0].x = nullptr;
  const std::vector<float> before = H(*sequences.at(0).state);
  Run(slices);
  EXPECT_NE(H(*sequences.at(0).state), before);
}

TEST_F(StatesTest, NothingToDo) { Run({}); }

}  // namespace
}  // namespace rnnserve::cpu
