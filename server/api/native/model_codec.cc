// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/model_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "server/api/native/operator_codec.h"
#include "server/api/native/options_codec.h"
#include "server/api/native/tensor_codec.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxNameBytes = 128;

absl::Status CheckName(const std::string& name) {
  const bool known_letters = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (!name.empty() && name.size() <= kMaxNameBytes && known_letters && name[0] != '.') return absl::OkStatus();
  return FieldError("name", absl::StrCat("a model's name is 1 to ", kMaxNameBytes,
                                         " of letters, digits, '.', '_' and '-', not starting with '.'; ",
                                         name.empty()     ? "none came"
                                         : !known_letters ? "this one has other characters"
                                         : name[0] == '.' ? "this one starts with '.'"
                                                          : absl::StrCat("this one has ", name.size())));
}

absl::StatusOr<InlineLayer> DecodeLayer(const v1::InlineModel& message, const std::string& path) {
  ASSIGN_OR_RETURN(OperatorDef op, DecodeOperator(message.operator_(), absl::StrCat(path, ".operator")));
  ASSIGN_OR_RETURN(std::vector<NamedTensor> weights, DecodeTensors(message.weights(), absl::StrCat(path, ".weights")));
  return InlineLayer{std::move(op), std::move(weights)};
}

absl::Status DecodeSource(const v1::LoadRequest& request, LoadCall& call) {
  switch (request.source_case()) {
    case v1::LoadRequest::kInline: {
      ASSIGN_OR_RETURN(call.source, DecodeLayer(request.inline_(), "inline"));
      return absl::OkStatus();
    }
    case v1::LoadRequest::kStack: {
      const int count = request.stack().layers_size();
      if (count < 1 || static_cast<size_t>(count) > kMaxLayers) {
        return FieldError("stack.layers",
                          absl::StrCat("a model has 1 to ", kMaxLayers, " layers, but ", count, " came"));
      }
      std::vector<InlineLayer> layers;
      for (const v1::InlineModel& message : request.stack().layers()) {
        ASSIGN_OR_RETURN(InlineLayer layer, DecodeLayer(message, absl::StrCat("stack.layers[", layers.size(), "]")));
        layers.push_back(std::move(layer));
      }
      call.source = std::move(layers);
      return absl::OkStatus();
    }
    case v1::LoadRequest::kOnnxFile:
      call.source = std::make_shared<const std::string>(request.onnx_file());
      return absl::OkStatus();
    case v1::LoadRequest::kRepository:
      if (request.repository()) return absl::OkStatus();
      return FieldError("repository", "repository is false; set it to true, or send the model");
    case v1::LoadRequest::SOURCE_NOT_SET:
      break;
  }
  return FieldError("source", "the request brings no model; set inline, stack, onnx_file or repository");
}

// What LoadRequest and UploadRequest.Begin have in common.
template <typename Message>
absl::StatusOr<Upload> DecodeNameAndSettings(const Message& message) {
  Upload upload;
  if (absl::Status status = CheckName(message.name()); !status.ok()) return status;
  upload.name = message.name();
  if (message.has_version()) upload.version = message.version();
  if (upload.version && *upload.version < 1) {
    return FieldError("version", absl::StrCat("version is ", *upload.version, "; versions start at 1"));
  }
  absl::StatusOr<OptionalOptions> options = DecodeOptions(message.options());
  if (!options.ok()) return options.status();
  RETURN_IF_ERROR(CheckOptions(*options));
  upload.options = *options;
  upload.engine = message.engine();
  return upload;
}

std::string DimensionText(int64_t dimension) {
  return dimension == kDimT ? "T" : dimension == kDimN ? "N" : absl::StrCat(dimension);
}

void EncodeSignature(const TensorSignature& signature, v1::TensorSpec& spec) {
  spec.set_name(signature.name);
  spec.set_data_type(static_cast<v1::DataType>(signature.type));
  for (const int64_t dimension : signature.shape) spec.add_shape(DimensionText(dimension));
  spec.set_optional(signature.optional);
}

// Of one session row; the names of several layers carry their numbers. As the file calls and joins them, where it does.
void EncodeState(const StackSpec& stack, v1::ModelInfo& info) {
  const auto of_file = [&](size_t layer, PipelineInput::Kind kind) {
    return stack.file_inputs() != nullptr && std::ranges::any_of(*stack.file_inputs(), [&](const PipelineInput& input) {
             return input.kind == kind && std::ranges::find(input.layers, layer) != input.layers.end();
           });
  };
  if (stack.file_inputs() != nullptr) {
    for (const PipelineInput& input : *stack.file_inputs()) {
      if (input.kind != PipelineInput::Kind::kInitialH && input.kind != PipelineInput::Kind::kInitialC) continue;
      v1::TensorSpec& state = *info.add_state();
      state.set_name(input.name);
      state.set_data_type(static_cast<v1::DataType>(ComputeType(stack.data_type())));
      int64_t directions = 0;
      for (const size_t layer : input.layers) directions += stack.layers[layer].directions();
      if (directions > 1) state.add_shape(absl::StrCat(directions));
      state.add_shape(absl::StrCat(stack.layers[input.layers[0]].hidden_size));
    }
  }
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    const OpSpec& spec = stack.layers[layer];
    const auto add = [&](std::string name) {
      v1::TensorSpec& state = *info.add_state();
      state.set_name(stack.layers.size() == 1 ? std::move(name) : absl::StrCat(name, ".", layer));
      state.set_data_type(static_cast<v1::DataType>(ComputeType(spec.data_type)));
      state.add_shape(absl::StrCat(spec.hidden_size));
    };
    if (!of_file(layer, PipelineInput::Kind::kInitialH)) add("initial_h");
    if (spec.kind == CellKind::kLstm && !of_file(layer, PipelineInput::Kind::kInitialC)) add("initial_c");
  }
}

}  // namespace

absl::StatusOr<LoadCall> DecodeLoad(const v1::LoadRequest& request) {
  LoadCall call;
  ASSIGN_OR_RETURN(call.upload, DecodeNameAndSettings(request));
  RETURN_IF_ERROR(DecodeSource(request, call));
  return call;
}

absl::StatusOr<Upload> DecodeUpload(const v1::UploadRequest::Begin& begin) { return DecodeNameAndSettings(begin); }

void EncodeModelInfo(const LoadedModel& loaded, int64_t packed_bytes, v1::ModelInfo& info) {
  const StackSpec& stack = loaded.model->stack();
  info.set_name(loaded.name);
  info.set_version(loaded.version);
  info.set_fingerprint(loaded.model->fingerprint());
  const std::vector<ModelLayer>& layers = loaded.model->layers();
  if (layers.size() == 1) {
    EncodeOperator(layers[0].op, *info.mutable_operator_());
  } else {
    for (const ModelLayer& layer : layers) EncodeOperator(layer.op, *info.add_layers());
  }
  for (const TensorSignature& input : DataInputs(stack)) EncodeSignature(input, *info.add_inputs());
  for (const TensorSignature& output : Outputs(stack)) EncodeSignature(output, *info.add_outputs());
  EncodeState(stack, info);
  EncodeOptions(loaded.options, *info.mutable_options());
  info.set_engine(loaded.engine);
  info.set_source(loaded.source);
  info.set_tenant(loaded.tenant);
  info.set_weight_bytes(loaded.model->weight_bytes());
  info.set_packed_bytes(packed_bytes);
}

}  // namespace rnnserve
