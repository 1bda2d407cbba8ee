// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/model_codec.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/op/stack.h"
#include "server/api/kserve/tensor_codec.h"

namespace rnnserve::kserve {
namespace {

constexpr char kPlatform[] = "rnnserve_onnx";
constexpr char kBackend[] = "rnnserve";
// Load tools take this as the most rows that they may put into a request. The server's own bound is on bytes.
constexpr int32_t kMaxBatchSize = 1024;

// Those that a request must have, and states that the file names: load tools fill each input that is listed with random
// numbers.
std::vector<TensorSignature> InputsOf(const StackSpec& stack, ViewAs view) {
  std::vector<TensorSignature> inputs = view == ViewAs::kSequence ? ChunkInputs(stack) : DataInputs(stack);
  std::erase_if(inputs, [&](const TensorSignature& input) {
    return input.optional && (stack.file_names == nullptr || IsChunkInput(stack, input.name));
  });
  return inputs;
}

// Axes of any size are -1, the time's and the batch's alike.
int64_t Dimension(int64_t axis) { return axis < 0 ? -1 : axis; }

void EncodeTensor(const TensorSignature& tensor, inference::ModelMetadataResponse::TensorMetadata& message) {
  message.set_name(tensor.name);
  const std::string_view type = TypeText(tensor.type);
  message.set_datatype(type.data(), type.size());
  for (const int64_t axis : tensor.shape) message.add_shape(Dimension(axis));
}

inference::DataType ConfigType(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return inference::TYPE_FP32;
    case DataType::kDouble:
      return inference::TYPE_FP64;
    case DataType::kFloat16:
      return inference::TYPE_FP16;
    case DataType::kBFloat16:
      return inference::TYPE_BF16;
    case DataType::kInt32:
      return inference::TYPE_INT32;
    case DataType::kInt64:
      return inference::TYPE_INT64;
  }
  return inference::TYPE_INVALID;
}

template <typename Message>
void EncodeConfigTensor(const TensorSignature& tensor, bool has_batch, Message& message) {
  message.set_name(tensor.name);
  message.set_data_type(ConfigType(tensor.type));
  for (size_t axis = has_batch ? 1 : 0; axis < tensor.shape.size(); ++axis) {
    message.add_dims(Dimension(tensor.shape[axis]));
  }
}

}  // namespace

void EncodeMetadata(const LoadedModel& loaded, ViewAs view, inference::ModelMetadataResponse& response) {
  const StackSpec& stack = loaded.model->stack();
  response.set_name(loaded.name);
  response.add_versions(absl::StrCat(loaded.version));
  response.set_platform(kPlatform);
  for (const TensorSignature& input : InputsOf(stack, view)) EncodeTensor(input, *response.add_inputs());
  for (const TensorSignature& output : Outputs(stack)) EncodeTensor(output, *response.add_outputs());
}

void EncodeConfig(const LoadedModel& loaded, ViewAs view, inference::ModelConfig& config) {
  const StackSpec& stack = loaded.model->stack();
  const std::vector<TensorSignature> inputs = InputsOf(stack, view), outputs = Outputs(stack);
  const auto begins_with_batch = [](const TensorSignature& tensor) {
    return !tensor.shape.empty() && tensor.shape[0] == kDimN;
  };
  const bool has_batch =
      std::ranges::all_of(inputs, begins_with_batch) && std::ranges::all_of(outputs, begins_with_batch);
  config.set_name(loaded.name);
  config.set_platform(kPlatform);
  config.set_backend(kBackend);
  config.set_max_batch_size(has_batch ? kMaxBatchSize : 0);
  for (const TensorSignature& input : inputs) EncodeConfigTensor(input, has_batch, *config.add_input());
  for (const TensorSignature& output : outputs) EncodeConfigTensor(output, has_batch, *config.add_output());
  if (view == ViewAs::kSequence) {
    config.mutable_sequence_batching()->mutable_oldest();
  } else {
    config.mutable_dynamic_batching();
  }
}

}  // namespace rnnserve::kserve
