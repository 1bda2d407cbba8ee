// SPDX-License-Identifier: Apache-2.0
// numpy's .npy files (versions 1.0 and 2.0): arrays of float16, float32, float64, int32 and int64 in C order.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/tensor.h"

namespace rnnserve::rnnctl {

// A tensor without a name from a whole file's bytes. Whatever the bytes: a clear refusal, never more memory than they
// take.
absl::StatusOr<client::Tensor> ParseNpy(std::string_view file);

// The bytes of a version 1.0 file. numpy has no bfloat16: such a tensor is written as float32, exactly.
std::string FormatNpy(const client::Tensor& tensor);

}  // namespace rnnserve::rnnctl
