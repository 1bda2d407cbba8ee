// SPDX-License-Identifier: Apache-2.0
// An ONNX file as its protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "onnx_file/folder.h"

namespace rnnserve {

// A file's bytes, as ParseOnnx below reads them.
absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ParseOnnx(std::string_view bytes);

// File `name` of `folder`, with a graph. NOT_FOUND if it is missing. Protobuf nests 100 messages deep and no more, so
// that walks over graphs in graphs may recurse.
absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ParseOnnx(const Folder& folder, const std::string& name,
                                                                  int64_t max_bytes);

// The one version of the default domain that the file imports.
absl::StatusOr<int64_t> OpsetOf(const onnx::ModelProto& model);

}  // namespace rnnserve
