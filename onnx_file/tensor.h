// SPDX-License-Identifier: Apache-2.0
// The elements of an ONNX TensorProto, wherever it keeps them.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/tensor.h"
#include "onnx_file/folder.h"

namespace rnnserve {

struct OnnxTensor {
  TensorView view;
  std::shared_ptr<const void> storage;  // null if the view points into the TensorProto
};

// A tensor of floats, or of the integers that tell other nodes axes and shapes, of at most `max_bytes`. External data
// must lie inside `folder`; null: there can be none. Nothing is allocated before the data are known to be there.
absl::StatusOr<OnnxTensor> ReadOnnxTensor(const onnx::TensorProto& tensor, const Folder* folder, int64_t max_bytes);

// Whether the number is that of INT8, UINT8, INT4 or UINT4, which quantised weights are stored as.
bool IsNarrowInteger(int64_t number);
// Such a tensor, likewise, as INT32.
absl::StatusOr<OnnxTensor> ReadNarrowIntegers(const onnx::TensorProto& tensor, const Folder* folder, int64_t max_bytes);

// OK for what weights can be: FLOAT, DOUBLE, FLOAT16, BFLOAT16.
absl::Status CheckFloating(DataType type);

// Every byte is: zeros, but for such as -0.
bool AllZero(std::span<const std::byte> data);

// "FLOAT16", as ONNX calls the type of this number.
std::string OnnxTypeName(int64_t number);
inline std::string OnnxTypeName(DataType type) { return OnnxTypeName(static_cast<int64_t>(type)); }

}  // namespace rnnserve
