// SPDX-License-Identifier: Apache-2.0
// Pieces of ONNX files that are written. Private to onnx_file.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>

#include "engine/op/op_spec.h"
#include "engine/op/operator.h"

namespace rnnserve {

inline constexpr int64_t kMaxFileBytes = 2'000'000'000;  // protobuf writes less than 2 GiB
inline constexpr int64_t kOldestIrVersion = 4;           // since when initializers need not be inputs

// A graph's input or output, its open axes called T and N.
void Describe(const TensorSignature& signature, onnx::ValueInfoProto& info);
void Store(const NamedTensor& weight, onnx::TensorProto& tensor);

}  // namespace rnnserve
