// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/parse.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/inlined.h"

namespace rnnserve {

namespace {

using Model = std::shared_ptr<const onnx::ModelProto>;

absl::StatusOr<Model> Read(google::protobuf::io::ZeroCopyInputStream& stream, int64_t bytes) {
  auto model = std::make_shared<onnx::ModelProto>();
  if (!model->ParseFromZeroCopyStream(&stream)) {
    return BadFile(absl::StrCat("is no ONNX model, was cut off, or nests graphs too deep (", bytes, " bytes)"));
  }
  if (!model->has_graph()) return BadFile(absl::StrCat("holds no graph (", bytes, " bytes)"));
  if (absl::Status inlined = Inline(*model); !inlined.ok()) return inlined;
  return model;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ParseOnnx(std::string_view bytes) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return Read(stream, static_cast<int64_t>(bytes.size()));
}

absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> ParseOnnx(const Folder& folder, const std::string& name,
                                                                  int64_t max_bytes) {
  const absl::StatusOr<File> file = folder.OpenFile(name);
  if (!file.ok()) return file.status();
  if (file->size() > max_bytes) {
    return BadFile(absl::StrCat("has ", file->size(), " bytes, above the limit of ", max_bytes,
                                "; keep the weights in external data"));
  }
  google::protobuf::io::FileInputStream stream(file->fd());
  return Read(stream, file->size());
}

absl::StatusOr<int64_t> OpsetOf(const onnx::ModelProto& model) {
  std::optional<int64_t> opset;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (!import.domain().empty() && import.domain() != "ai.onnx") continue;
    if (opset && *opset != import.version()) {
      return BadFile(absl::StrCat("imports both opset ", *opset, " and ", import.version(), " of the default domain"));
    }
    opset = import.version();
  }
  if (!opset) return BadFile("has no opset_import of the default domain, so the operator's version is unknown");
  return *opset;
}

}  // namespace rnnserve
