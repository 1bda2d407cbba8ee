// SPDX-License-Identifier: Apache-2.0
// Tables of refusals: an example that is spoilt, and the field and text of the error that comes of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"

namespace rnnserve {

struct Refusal {
  std::string op_type;
  int64_t version;
  std::function<void(Example&)> spoil;
  std::string field;
  std::string text;  // a part of it
};

// `run`: the status of a spoilt example.
inline void ExpectRefusals(const std::vector<Refusal>& refusals,
                           const std::function<absl::Status(const Example&)>& run) {
  int row = 0;
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE("row " + std::to_string(row++) + ": " + refusal.field + " " + refusal.text);
    Example example = refusal.op_type.ends_with("Sequence") ? OpenVinoExample(refusal.op_type, refusal.version)
                                                            : OnnxExample(refusal.op_type, refusal.version);
    refusal.spoil(example);
    const absl::Status status = run(example);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), refusal.field) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(refusal.text));
    EXPECT_LT(status.message().size(), 600u) << "a status has little room on the wire";
  }
}

}  // namespace rnnserve
