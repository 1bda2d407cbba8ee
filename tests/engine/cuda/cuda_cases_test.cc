// SPDX-License-Identifier: Apache-2.0
// Writes cases.bin for cuda_selftest: operators of every kind and type, whose results the naive oracle confirms here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/engine/cuda/recording_engine.h"
#include "tests/engine/cuda/selftest/case_file.h"
#include "tests/engine/support/compare.h"
#include "tests/engine/support/naive_operator.h"
#include "tests/engine/support/run_operator.h"

namespace rnnserve::cuda {
namespace {

using selftest::ReadCalls;
using selftest::RecordedCall;
using selftest::WriteCalls;

constexpr int kOperatorsOfAType = 60;

struct TypeCase {
  DataType type;
  double tolerance;
};
constexpr TypeCase kTypes[] = {
    {DataType::kFloat, 1e-5}, {DataType::kDouble, 1e-12}, {DataType::kFloat16, 2e-3}, {DataType::kBFloat16, 1e-2}};

std::vector<RecordedCall> Record() {
  std::vector<RecordedCall> calls;
  std::mt19937_64 random(8);
  for (const auto& [type, tolerance] : kTypes) {
    const std::unique_ptr<Engine> engine = MakeRecordingEngine(&calls, tolerance);
    for (int k = 0; k < kOperatorsOfAType; ++k) {
      const RandomOperator op = MakeTameOperator(random, type, {.default_functions = k % 2 == 0});
      SCOPED_TRACE(op.Describe());
      const size_t before = calls.size();
      const absl::StatusOr<OutputMap> outputs = RunOperator(*engine, op.op, op.inputs);
      EXPECT_TRUE(outputs.ok()) << outputs.status();
      if (!outputs.ok()) continue;
      for (const auto& [name, values] : RunNaively(op)) {
        EXPECT_TRUE(ValuesNear(outputs->at(name).Values(), values, tolerance)) << "in " << name;
      }
      for (size_t at = before; at < calls.size(); ++at) calls[at].description = op.Describe();
    }
  }
  return calls;
}

TEST(CudaCasesTest, AreWrittenAndReadBack) {
  const std::vector<RecordedCall> calls = Record();
  std::set<std::tuple<int, int>> kinds;
  for (const RecordedCall& call : calls) kinds.emplace(call.cell.kind, call.cell.data_type);
  EXPECT_EQ(kinds.size(), 12u) << "every kind in every type";

  // Whole or not at all: another process may be copying it.
  const std::string unfinished = std::string(CASES_FILE) + ".tmp";
  std::FILE* file = std::fopen(unfinished.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(WriteCalls(file, calls));
  ASSERT_EQ(std::fclose(file), 0);
  ASSERT_EQ(std::rename(unfinished.c_str(), CASES_FILE), 0);

  std::vector<RecordedCall> back;
  file = std::fopen(CASES_FILE, "rb");
  EXPECT_EQ(ReadCalls(file, back), "");
  EXPECT_EQ(std::fgetc(file), EOF);
  std::fclose(file);
  ASSERT_EQ(back.size(), calls.size());
  for (size_t k = 0; k < calls.size(); ++k) {
    EXPECT_EQ(back[k].description, calls[k].description);
    EXPECT_EQ(back[k].r, calls[k].r);
    ASSERT_EQ(back[k].slices.size(), calls[k].slices.size());
    for (size_t s = 0; s < calls[k].slices.size(); ++s) {
      EXPECT_EQ(back[k].slices[s].x, calls[k].slices[s].x);
      EXPECT_EQ(back[k].slices[s].y, calls[k].slices[s].y);
      EXPECT_EQ(back[k].slices[s].h_after, calls[k].slices[s].h_after);
    }
  }
}

class DamagedFile : public testing::Test {
 protected:
  ~DamagedFile() override { std::fclose(file_); }
  std::string Read() {
    std::rewind(file_);
    std::vector<RecordedCall> calls;
    return ReadCalls(file_, calls);
  }
  std::FILE* file_ = std::tmpfile();
};

TEST_F(DamagedFile, IsToldApart) {
  EXPECT_NE(Read(), "") << "empty";
  RecordedCall call;
  call.w = {1, 2, 3};
  call.slices.resize(1);
  ASSERT_TRUE(WriteCalls(file_, {call}));
  EXPECT_EQ(Read(), "");
  const long size = std::ftell(file_);
  // A list that claims more elements than any has; and an end that comes early.
  std::rewind(file_);
  std::fseek(file_, 20, SEEK_SET);
  const uint64_t many = ~uint64_t{0};
  std::fwrite(&many, sizeof many, 1, file_);
  EXPECT_EQ(Read(), "it ends early or is damaged");
  std::rewind(file_);
  ASSERT_TRUE(WriteCalls(file_, {call}));
  ASSERT_EQ(std::fflush(file_), 0);
  ASSERT_EQ(ftruncate(fileno(file_), size - 1), 0);
  EXPECT_EQ(Read(), "it ends early or is damaged");
  std::rewind(file_);
  std::fputc('x', file_);
  EXPECT_NE(Read().find("no file of cases"), std::string::npos);
}

}  // namespace
}  // namespace rnnserve::cuda
