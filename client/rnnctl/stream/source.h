// SPDX-License-Identifier: Apache-2.0
// Where the chunks of `rnnctl stream` come from: a .npy array, or raw float32 values as they arrive.
#pragma once

#include <istream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/tensor.h"

namespace rnnserve::rnnctl {

// What X looks like to the model.
struct XShape {
  DataType type = DataType::kFloat;
  size_t step_axis = 0;  // of [T, N, I], or 1 of [N, T, I]
  int64_t rows = 1;      // of raw values; an array has its own
  int64_t features = 0;  // 0: not known
};

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // X of the next chunk; nothing at the end. May wait for input.
  virtual absl::StatusOr<std::optional<client::Tensor>> Next() = 0;
  // Rows of all chunks.
  virtual int64_t rows() const = 0;
};

// `in` begins with the bytes of a .npy file, which is read whole ([T, N, I], [T, I] or [T]), or holds raw little-endian
// float32 values, step by step, each step row by row, which are read as they come. Chunks have `steps` steps, the last
// one perhaps fewer. `name` is for errors. `in` outlives the source.
absl::StatusOr<std::unique_ptr<ChunkSource>> OpenSource(std::istream& in, const std::string& name, const XShape& x,
                                                        int64_t steps);

}  // namespace rnnserve::rnnctl
