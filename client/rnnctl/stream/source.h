// SPDX-License-Identifier: Apache-2.0
// Where the chunks of `rnnctl stream` come from: a .npy array, a WAV recording, or raw float32 values as they arrive.
#pragma once

#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/tensor.h"

namespace rnnserve::rnnctl {

// What X looks like to the model.
struct XShape {
  std::string name = "X";  // as the model calls it
  DataType type = DataType::kFloat;
  size_t rank = 3;                               // 2: one number of each step and row, such as a token
  size_t step_axis = 0;                          // of [T, N, I], or 1 of [N, T, I]
  std::optional<size_t> rows_axis = {};          // of other orders, which only whole arrays have
  int64_t rows = 1;                              // of raw values and samples; an array has its own
  int64_t features = 0;                          // 0: not known
  std::map<std::string, size_t> step_axes = {};  // of the outputs that have a value for each step
};

enum class InputFormat { kDetect, kNpy, kWav, kRaw };

// "npy", "wav" or "raw".
absl::StatusOr<InputFormat> ParseInputFormat(std::string_view text);

struct Reading {
  InputFormat format = InputFormat::kDetect;
  int64_t steps = 16;       // of a chunk
  int64_t sample_rate = 0;  // that a WAV recording must have; 0: any
};

class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // X of the next chunk; nothing at the end. May wait for input.
  virtual absl::StatusOr<std::optional<client::Tensor>> Next() = 0;
  // Rows of all chunks.
  virtual int64_t rows() const = 0;
  // As the input itself says; 0: it does not.
  virtual double steps_per_second() const { return 0; }
  // What a person should know of the input, before the first and after the last chunk; "": nothing.
  virtual std::string Introduction() const { return ""; }
  virtual std::string Remark() const { return ""; }
};

// What `in` begins with is detected:
// - a .npy file, which is read whole: [T, N, I], [T, I] or [T]; of rank 2 [T, N] or [T];
// - a WAV recording, which is read as it comes. With as many channels as a step has values, each moment is a step;
//   with as many channels as rows, each channel is a row. Of one channel, or of a row's, successive samples fill a
//   step.
// Raw little-endian float32 values, step by step, each step row by row, are read as they come, and have no mark: they
// are read only where kRaw says so.
// Chunks have as many steps as `reading` says, the last one perhaps fewer. `name` is for errors. `in` outlives the
// source.
absl::StatusOr<std::unique_ptr<ChunkSource>> OpenSource(std::istream& in, const std::string& name, const XShape& x,
                                                        const Reading& reading);

}  // namespace rnnserve::rnnctl
