// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/codec.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::client {
namespace {

constexpr size_t kMaxAxes = 8;  // no operator's output has more than 4

absl::Status BadReply(const std::string& what) {
  return absl::InternalError(absl::StrCat("the server's reply cannot be used: ", what));
}

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

v1::Attribute EncodeAttribute(const AttributeValue& value) {
  v1::Attribute wire;
  std::visit(Overloaded{
                 [&](float v) { wire.set_f(v); },
                 [&](int64_t v) { wire.set_i(v); },
                 [&](const std::string& v) { wire.set_s(v); },
                 [&](const std::vector<float>& v) { wire.mutable_floats()->mutable_values()->Add(v.begin(), v.end()); },
                 [&](const std::vector<int64_t>& v) { wire.mutable_ints()->mutable_values()->Add(v.begin(), v.end()); },
                 [&](const std::vector<std::string>& v) {
                   for (const std::string& text : v) wire.mutable_strings()->add_values(text);
                 },
             },
             value);
  return wire;
}

AttributeValue DecodeAttribute(const v1::Attribute& wire) {
  switch (wire.value_case()) {
    case v1::Attribute::kF:
      return wire.f();
    case v1::Attribute::kI:
      return int64_t{wire.i()};
    case v1::Attribute::kS:
      return wire.s();
    case v1::Attribute::kFloats:
      return std::vector<float>(wire.floats().values().begin(), wire.floats().values().end());
    case v1::Attribute::kInts:
      return std::vector<int64_t>(wire.ints().values().begin(), wire.ints().values().end());
    case v1::Attribute::kStrings:
      return std::vector<std::string>(wire.strings().values().begin(), wire.strings().values().end());
    case v1::Attribute::VALUE_NOT_SET:
      break;
  }
  return std::string();
}

Options DecodeOptions(const v1::Options& wire) {
  Options options;
  if (wire.has_clip_cell_input()) options.clip_cell_input = wire.clip_cell_input();
  if (wire.has_empty_row_state() && wire.empty_row_state() != v1::EMPTY_ROW_STATE_UNSPECIFIED) {
    options.empty_row_state = wire.empty_row_state() == v1::INITIAL ? EmptyRowState::kInitial : EmptyRowState::kZeros;
  }
  if (wire.has_deterministic()) options.deterministic = wire.deterministic();
  if (wire.has_allow_reduced_precision()) options.allow_reduced_precision = wire.allow_reduced_precision();
  // The wire counts from 1.
  if (wire.weight_type() > v1::Options::WEIGHT_TYPE_UNSPECIFIED &&
      v1::Options::WeightType_IsValid(wire.weight_type())) {
    options.weight_type = static_cast<WeightType>(static_cast<int>(wire.weight_type()) - 1);
  }
  return options;
}

absl::StatusOr<std::vector<TensorSpec>> DecodeSpecs(const google::protobuf::RepeatedPtrField<v1::TensorSpec>& wire) {
  std::vector<TensorSpec> specs;
  for (const v1::TensorSpec& spec : wire) {
    const auto type = static_cast<DataType>(spec.data_type());
    if (ByteSize(type) == 0)
      return BadReply(absl::StrCat(spec.name(), " has the unknown data type ", spec.data_type()));
    specs.push_back({spec.name(), type, {spec.shape().begin(), spec.shape().end()}, spec.optional()});
  }
  return specs;
}

}  // namespace

absl::StatusOr<Tensor> DecodeTensor(v1::Tensor& wire) {
  Tensor tensor{wire.name(), static_cast<DataType>(wire.data_type()), Shape(wire.shape().begin(), wire.shape().end()),
                std::move(*wire.mutable_raw())};
  if (ByteSize(tensor.type) == 0) {
    return BadReply(absl::StrCat("tensor ", tensor.name, " has the unknown data type ", wire.data_type()));
  }
  if (tensor.shape.size() > kMaxAxes) {
    return BadReply(absl::StrCat("tensor ", tensor.name, " has ", tensor.shape.size(), " axes"));
  }
  const std::optional<int64_t> bytes = NumBytes(tensor.type, tensor.shape);
  if (!bytes || *bytes != static_cast<int64_t>(tensor.bytes.size())) {
    return BadReply(absl::StrCat("tensor ", tensor.name, " of shape ", ShapeString(tensor.shape), " came with ",
                                 tensor.bytes.size(), " bytes of raw data"));
  }
  return tensor;
}

std::chrono::nanoseconds DecodeDuration(const google::protobuf::Duration& wire) {
  constexpr int64_t kMaxSeconds = 1'000'000'000;  // keeps the sum in range whatever came
  if (wire.seconds() < 0 || wire.seconds() > kMaxSeconds || wire.nanos() < 0) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(wire.seconds()) + std::chrono::nanoseconds(wire.nanos());
}

absl::StatusOr<std::vector<Tensor>> DecodeTensors(google::protobuf::RepeatedPtrField<v1::Tensor>& wire) {
  std::vector<Tensor> tensors;
  for (v1::Tensor& message : wire) {
    absl::StatusOr<Tensor> tensor = DecodeTensor(message);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

void Encode(const Tensor& tensor, v1::Tensor& wire) {
  wire.set_name(tensor.name);
  wire.set_data_type(static_cast<v1::DataType>(tensor.type));
  wire.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  wire.set_raw(tensor.bytes);
}

void Encode(const OperatorDef& op, v1::Operator& wire) {
  wire.set_domain(op.domain);
  wire.set_op_type(op.op_type);
  if (op.version) wire.set_version(*op.version);
  if (op.opset) wire.set_opset(*op.opset);
  for (const auto& [name, value] : op.attributes) (*wire.mutable_attributes())[name] = EncodeAttribute(value);
}

OperatorDef DecodeOperator(const v1::Operator& wire) {
  OperatorDef op;
  op.domain = wire.domain();
  op.op_type = wire.op_type();
  if (wire.has_version()) op.version = wire.version();
  if (wire.has_opset()) op.opset = wire.opset();
  for (const auto& [name, value] : wire.attributes()) op.attributes[name] = DecodeAttribute(value);
  return op;
}

void Encode(const ModelRef& model, v1::ModelRef& wire) {
  wire.set_name(model.name);
  if (model.version) wire.set_version(*model.version);
}

void Encode(const Options& options, v1::Options& wire) {
  if (options.clip_cell_input) wire.set_clip_cell_input(*options.clip_cell_input);
  if (options.empty_row_state) {
    wire.set_empty_row_state(*options.empty_row_state == EmptyRowState::kInitial ? v1::INITIAL : v1::ZEROS);
  }
  if (options.deterministic) wire.set_deterministic(*options.deterministic);
  if (options.allow_reduced_precision) wire.set_allow_reduced_precision(*options.allow_reduced_precision);
  if (options.weight_type) {
    wire.set_weight_type(static_cast<v1::Options::WeightType>(static_cast<int>(*options.weight_type) + 1));
  }
}

v1::InferRequest EncodeInfer(const Target& target, const std::vector<Tensor>& inputs, const InferOptions& options) {
  v1::InferRequest wire;
  wire.set_request_id(options.request_id);
  std::visit(Overloaded{
                 [&](const OperatorDef& op) { Encode(op, *wire.mutable_operator_()); },
                 [&](const ModelRef& model) { Encode(model, *wire.mutable_model()); },
                 [&](const Fingerprint& fingerprint) { wire.set_fingerprint(fingerprint.hex); },
             },
             target);
  for (const Tensor& tensor : inputs) Encode(tensor, *wire.add_inputs());
  for (const std::string& output : options.outputs) wire.add_outputs(output);
  Encode(options.options, *wire.mutable_options());
  wire.set_engine(options.engine);
  wire.set_priority(options.priority);
  return wire;
}

v1::LoadRequest EncodeLoad(const LoadRequest& request) {
  v1::LoadRequest wire;
  wire.set_name(request.name);
  if (request.version) wire.set_version(*request.version);
  const auto encode_layer = [](const InlineModel& model, v1::InlineModel& message) {
    Encode(model.op, *message.mutable_operator_());
    for (const Tensor& tensor : model.weights) Encode(tensor, *message.add_weights());
  };
  if (const auto* model = std::get_if<InlineModel>(&request.source)) {
    encode_layer(*model, *wire.mutable_inline_());
  } else if (const auto* layers = std::get_if<std::vector<InlineModel>>(&request.source)) {
    for (const InlineModel& layer : *layers) encode_layer(layer, *wire.mutable_stack()->add_layers());
  } else if (std::holds_alternative<FromRepository>(request.source)) {  // a file goes by EncodeUpload
    wire.set_repository(true);
  }
  Encode(request.options, *wire.mutable_options());
  wire.set_engine(request.engine);
  return wire;
}

v1::UploadRequest EncodeUpload(const LoadRequest& request) {
  v1::UploadRequest wire;
  v1::UploadRequest::Begin& begin = *wire.mutable_begin();
  begin.set_name(request.name);
  if (request.version) begin.set_version(*request.version);
  Encode(request.options, *begin.mutable_options());
  begin.set_engine(request.engine);
  begin.set_file_bytes(static_cast<int64_t>(std::get<OnnxFile>(request.source).bytes.size()));
  return wire;
}

absl::StatusOr<InferResult> DecodeInfer(v1::InferResponse& wire) {
  InferResult result;
  result.request_id = wire.request_id();
  absl::StatusOr<std::vector<Tensor>> outputs = DecodeTensors(*wire.mutable_outputs());
  if (!outputs.ok()) return outputs.status();
  result.outputs = *std::move(outputs);
  result.engine = wire.engine();
  result.fingerprint = wire.fingerprint();
  result.queue_time = DecodeDuration(wire.queue_time());
  result.compute_time = DecodeDuration(wire.compute_time());
  result.largest_batch = wire.largest_batch();
  result.warnings.assign(wire.warnings().begin(), wire.warnings().end());
  return result;
}

absl::StatusOr<ModelInfo> DecodeModel(const v1::ModelInfo& wire) {
  ModelInfo info;
  info.name = wire.name();
  info.version = wire.version();
  info.fingerprint = wire.fingerprint();
  info.op = DecodeOperator(wire.operator_());
  for (const v1::Operator& layer : wire.layers()) info.layers.push_back(DecodeOperator(layer));
  for (auto [from, to] : {std::pair(&wire.inputs(), &info.inputs), std::pair(&wire.outputs(), &info.outputs),
                          std::pair(&wire.state(), &info.state)}) {
    absl::StatusOr<std::vector<TensorSpec>> specs = DecodeSpecs(*from);
    if (!specs.ok()) return specs.status();
    *to = *std::move(specs);
  }
  info.options = DecodeOptions(wire.options());
  info.engine = wire.engine();
  info.source = wire.source();
  info.weight_bytes = wire.weight_bytes();
  info.packed_bytes = wire.packed_bytes();
  info.tenant = wire.tenant();
  return info;
}

absl::StatusOr<ModelList> DecodeList(const v1::ListModelsResponse& wire) {
  ModelList list;
  for (const v1::ModelInfo& model : wire.models()) {
    absl::StatusOr<ModelInfo> info = DecodeModel(model);
    if (!info.ok()) return info.status();
    list.models.push_back(*std::move(info));
  }
  for (const auto& failure : wire.failures()) list.failures.push_back({failure.path(), failure.reason()});
  return list;
}

}  // namespace rnnserve::client
