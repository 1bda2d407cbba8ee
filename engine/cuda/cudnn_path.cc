// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/cudnn_path.h"

#include <cstring>

#include "engine/cuda/element.h"
#include "engine/cuda/error.h"
#include "engine/cuda/predicate.h"

namespace rnnserve::cuda {
namespace {

// Above this width the small-H kernels don't exist for any cell; below, cuDNN itself says.
constexpr int64_t kSmallHiddenLimit = 512;

// cuDNN's matrix of ONNX block k: input ids, then recurrent ids (recurrent-operators.md, section 15).
constexpr int kLstmIds[] = {0, 3, 1, 2};
constexpr int kGruIds[] = {1, 0, 2};
constexpr int kRnnIds[] = {0};

const int* BlockIds(int kind) { return kind == RNNSERVE_LSTM ? kLstmIds : kind == RNNSERVE_GRU ? kGruIds : kRnnIds; }

cudnnDataType_t CudnnType(int type) {
  switch (type) {
    case RNNSERVE_DOUBLE:
      return CUDNN_DATA_DOUBLE;
    case RNNSERVE_FLOAT16:
      return CUDNN_DATA_HALF;
    case RNNSERVE_BFLOAT16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

cudnnRNNMode_t Mode(const rnnserve_cell& cell) {
  if (cell.kind == RNNSERVE_LSTM) return CUDNN_LSTM;
  if (cell.kind == RNNSERVE_GRU) return CUDNN_GRU;
  return ActsAs(cell.activations[0], RNNSERVE_RELU) ? CUDNN_RNN_RELU : CUDNN_RNN_TANH;
}

template <typename From, typename To>
void FillTyped(const void* from, int64_t first, int64_t count, std::byte* to) {
  const From* source = static_cast<const From*>(from) + first;
  for (int64_t k = 0; k < count; ++k) {
    To value;
    Narrow(source[k], value);
    std::memcpy(to + static_cast<size_t>(k) * sizeof(To), &value, sizeof value);
  }
}

// Copies weights of the compute type into the run type.
void Fill(int run_type, const void* from, int64_t first, int64_t count, std::byte* to) {
  switch (run_type) {
    case RNNSERVE_DOUBLE:
      return FillTyped<double, double>(from, first, count, to);
    case RNNSERVE_FLOAT16:
      return FillTyped<float, Half>(from, first, count, to);
    case RNNSERVE_BFLOAT16:
      return FillTyped<float, BFloat16>(from, first, count, to);
    default:
      return FillTyped<float, float>(from, first, count, to);
  }
}

struct TensorDescriptor {
  TensorDescriptor() { Check(cudnnCreateTensorDescriptor(&desc), "cudnnCreateTensorDescriptor"); }
  ~TensorDescriptor() { cudnnDestroyTensorDescriptor(desc); }
  TensorDescriptor(const TensorDescriptor&) = delete;
  TensorDescriptor& operator=(const TensorDescriptor&) = delete;
  cudnnTensorDescriptor_t desc = nullptr;
};

}  // namespace

CudnnPath::Plan::~Plan() {
  if (desc != nullptr) cudnnDestroyRNNDescriptor(desc);
}

CudnnPath::CudnnPath(Device& device, ExecutionContext& context, const rnnserve_cell& cell,
                     const rnnserve_weights& weights, int run_type)
    : cell_(cell), run_type_(run_type) {
  packed_ = MakePlan(device, context, weights, CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_PADDED_IO_DISABLED);
  uniform_ = MakePlan(device, context, weights, CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_PADDED_IO_ENABLED);
  // Its functions are approximations: errors of 5e-6 in float32, which add up over layers.
  const bool is_exact_enough = run_type != RNNSERVE_FLOAT || cell.allow_reduced_precision != 0;
  if (cell.hidden_size <= kSmallHiddenLimit && run_type != RNNSERVE_DOUBLE && is_exact_enough) {
    try {
      small_h_ = MakePlan(device, context, weights, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, CUDNN_RNN_PADDED_IO_ENABLED);
    } catch (const Error& refused) {
      if (refused.code() != RNNSERVE_INTERNAL) throw;  // cuDNN's own refusal comes as INTERNAL
    }
  }
}

std::unique_ptr<CudnnPath::Plan> CudnnPath::MakePlan(Device& device, ExecutionContext& context,
                                                     const rnnserve_weights& weights, cudnnRNNAlgo_t algo,
                                                     uint32_t flags) {
  const bool half = run_type_ == RNNSERVE_FLOAT16 || run_type_ == RNNSERVE_BFLOAT16;
  // TF32 is what cuDNN's default may use; down-conversion to float16, which overflows, is not allowed.
  const cudnnMathType_t math = half                            ? CUDNN_TENSOR_OP_MATH
                               : run_type_ == RNNSERVE_DOUBLE  ? CUDNN_DEFAULT_MATH
                               : cell_.allow_reduced_precision ? CUDNN_DEFAULT_MATH
                                                               : CUDNN_FMA_MATH;
  const auto input = static_cast<int32_t>(cell_.input_size);
  const auto hidden = static_cast<int32_t>(cell_.hidden_size);
  auto plan = std::make_unique<Plan>();
  Check(cudnnCreateRNNDescriptor(&plan->desc), "cudnnCreateRNNDescriptor");
  Check(cudnnSetRNNDescriptor_v8(plan->desc, algo, Mode(cell_), CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                                 CUDNN_LINEAR_INPUT, CudnnType(run_type_),
                                 run_type_ == RNNSERVE_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT, math, input,
                                 hidden, hidden, 1, nullptr, flags),
        "cudnnSetRNNDescriptor_v8");
  size_t bytes = 0;
  Check(cudnnGetRNNWeightSpaceSize(context.dnn(), plan->desc, &bytes), "cudnnGetRNNWeightSpaceSize");

  auto buffer = std::make_shared<DeviceBuffer>(device, bytes);
  std::vector<std::byte> image(bytes);
  const TensorDescriptor matrix, bias;
  const int64_t gates = GateCount(cell_.kind);
  for (int recurrent = 0; recurrent < 2; ++recurrent) {
    for (int64_t k = 0; k < gates; ++k) {
      const int id = BlockIds(cell_.kind)[k] + (recurrent ? static_cast<int>(gates) : 0);
      void* matrix_at = nullptr;
      void* bias_at = nullptr;
      Check(cudnnGetRNNWeightParams(context.dnn(), plan->desc, 0, bytes, buffer->data(), id, matrix.desc, &matrix_at,
                                    bias.desc, &bias_at),
            "cudnnGetRNNWeightParams");
      const auto matrix_offset = static_cast<size_t>(static_cast<std::byte*>(matrix_at) - buffer->data());
      const auto bias_offset = static_cast<size_t>(static_cast<std::byte*>(bias_at) - buffer->data());
      plan->layout.push_back(matrix_offset);
      plan->layout.push_back(bias_offset);
      const int64_t inner = recurrent ? cell_.hidden_size : cell_.input_size;
      Fill(run_type_, recurrent ? weights.r : weights.w, k * hidden * inner, hidden * inner,
           image.data() + matrix_offset);
      Fill(run_type_, recurrent ? weights.rb : weights.wb, k * hidden, hidden, image.data() + bias_offset);
    }
  }
  plan->layout.push_back(bytes);
  for (const auto* other : {&packed_, &uniform_}) {
    if (*other != nullptr && (*other)->layout == plan->layout) {
      plan->weights = (*other)->weights;
      return plan;
    }
  }
  CopyToDevice(buffer->data(), image.data(), bytes, "copying weights");
  plan->weights = std::move(buffer);
  return plan;
}

int64_t CudnnPath::bytes() const {
  auto total = static_cast<int64_t>(packed_->weights->size());
  if (uniform_->weights != packed_->weights) total += static_cast<int64_t>(uniform_->weights->size());
  if (small_h_ != nullptr && small_h_->weights != packed_->weights && small_h_->weights != uniform_->weights) {
    total += static_cast<int64_t>(small_h_->weights->size());
  }
  return total;
}

bool CudnnPath::MayRun(CudnnAlgorithm algorithm, const Block& block) const {
  return algorithm == CudnnAlgorithm::kStandard || (small_h_ != nullptr && block.uniform);
}

void CudnnPath::Run(CudnnAlgorithm algorithm, const Work& work) const {
  const Block& block = work.block;
  const ExecutionContext& context = work.context;
  const Plan& plan = algorithm == CudnnAlgorithm::kSmallH ? *small_h_ : block.uniform ? *uniform_ : *packed_;
  const cudnnDataType_t type = CudnnType(run_type_);
  const cudnnRNNDataLayout_t layout =
      block.uniform ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  Check(cudnnSetRNNDataDescriptor(context.x_desc(), type, layout, block.steps, block.active,
                                  static_cast<int>(cell_.input_size), block.lengths.data(), nullptr),
        "cudnnSetRNNDataDescriptor (x)");
  Check(cudnnSetRNNDataDescriptor(context.y_desc(), type, layout, block.steps, block.active,
                                  static_cast<int>(cell_.hidden_size), block.lengths.data(), nullptr),
        "cudnnSetRNNDataDescriptor (y)");
  const int hidden = static_cast<int>(cell_.hidden_size);
  const int sizes[] = {1, block.active, hidden};
  const int strides[] = {block.active * hidden, hidden, 1};
  Check(cudnnSetTensorNdDescriptor(context.state_desc(), type, 3, sizes, strides), "cudnnSetTensorNdDescriptor");
  size_t scratch = 0, reserve = 0;
  Check(cudnnGetRNNTempSpaceSizes(context.dnn(), plan.desc, CUDNN_FWD_MODE_INFERENCE, context.x_desc(), &scratch,
                                  &reserve),
        "cudnnGetRNNTempSpaceSizes");
  const bool lstm = cell_.kind == RNNSERVE_LSTM;
  Check(cudnnRNNForward(context.dnn(), plan.desc, CUDNN_FWD_MODE_INFERENCE, nullptr, context.x_desc(), work.x,
                        context.y_desc(), work.y, context.state_desc(), work.h_in, work.h_out, context.state_desc(),
                        lstm ? work.c_in : nullptr, lstm ? work.c_out : nullptr, plan.weights->size(),
                        plan.weights->data(), scratch, work.context.Scratch(scratch), 0, nullptr),
        "cudnnRNNForward");
}

}  // namespace rnnserve::cuda
