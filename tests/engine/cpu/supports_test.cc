// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/cpu/activations.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/cpu_engine.h"

namespace rnnserve::cpu {
namespace {

CellSpec Spec(DataType type, int64_t input_size, int64_t hidden_size) {
  CellSpec spec;
  spec.kind = CellKind::kRnn;
  spec.data_type = type;
  spec.input_size = input_size;
  spec.hidden_size = hidden_size;
  return spec;
}

TEST(CpuEngineSupports, AllButFewUnitsOfVeryManyInputs) {
  const std::unique_ptr<Engine> engine = MakeCpuEngine();
  constexpr int64_t kMany = 16 << 20;
  EXPECT_TRUE(engine->Supports(Spec(DataType::kFloat, 1 << 20, 1), {}).ok());
  EXPECT_TRUE(engine->Supports(Spec(DataType::kFloat, kMany, 4), {}).ok());
  EXPECT_TRUE(engine->Supports(Spec(DataType::kDouble, kMany, 2), {}).ok());
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kDouble}) {
    const absl::Status status = engine->Supports(Spec(type, kMany, 1), {});
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("hidden_size 1 with 16777216 inputs"));
  }
}

template <typename T>
std::vector<T> SoftsignOfInfinities() {
  const T infinity = std::numeric_limits<T>::infinity();
  AlignedBuffer<T> values(kLine<T>);
  for (size_t k = 0; k < kLine<T>; ++k) values[k] = k == 0 ? infinity : -infinity;
  ClippedActivation<T>({ActivationKind::kSoftsign, 0, 0}, std::numeric_limits<double>::infinity())
      .Apply(values.data(), kLine<T>);
  return {values[0], values[1]};
}

TEST(CpuSoftsign, OfInfinityIsOneAsInTheReferenceEngine) {
  EXPECT_THAT(SoftsignOfInfinities<float>(), testing::ElementsAre(1, -1));
  EXPECT_THAT(SoftsignOfInfinities<double>(), testing::ElementsAre(1, -1));
}

}  // namespace
}  // namespace rnnserve::cpu
