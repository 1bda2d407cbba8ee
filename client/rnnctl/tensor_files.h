// SPDX-License-Identifier: Apache-2.0
// Tensors from and to .npy files, as the flags --tensor, --cast and --out say.
#pragma once

#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/tensor.h"

namespace rnnserve::rnnctl {

// What no gRPC message can hold (2 GiB) is not read.
absl::StatusOr<std::string> ReadAll(std::istream& in, std::string_view what);
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The value of --cast: float16, bfloat16, float32 or float64.
absl::StatusOr<DataType> CastType(const std::string& name);

// "X=x.npy" each; `cast` empty or one of float16, bfloat16, float32, float64: what floating tensors become.
// sequence_lens of int64, numpy's own integer, becomes the int32 that ONNX asks for if all values fit.
absl::StatusOr<std::vector<client::Tensor>> ReadTensors(std::span<const std::string> flags,
                                                        std::optional<std::string> cast);

// DIR/NAME.npy for each; makes the folder. Returns the paths. Names come from the server: one that is no plain file
// name is refused.
absl::StatusOr<std::vector<std::string>> WriteTensors(const std::vector<client::Tensor>& tensors,
                                                      const std::string& folder);

// Results that could not be written (exit code 5).
absl::Status OutputError(const std::string& message);
bool IsOutputError(const absl::Status& status);

}  // namespace rnnserve::rnnctl
