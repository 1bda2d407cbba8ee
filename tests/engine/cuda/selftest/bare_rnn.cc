// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/selftest/bare_rnn.h"

#include <algorithm>

namespace rnnserve::selftest {
namespace {

// cuDNN's linear layer ids of ONNX blocks.
const std::vector<int>& Ids(int kind) {
  static const std::vector<int> lstm{0, 3, 1, 2}, gru{1, 0, 2}, rnn{0};
  return kind == RNNSERVE_LSTM ? lstm : kind == RNNSERVE_GRU ? gru : rnn;
}

cudnnDataType_t CudnnType(int type) {
  return type == RNNSERVE_DOUBLE     ? CUDNN_DATA_DOUBLE
         : type == RNNSERVE_FLOAT16  ? CUDNN_DATA_HALF
         : type == RNNSERVE_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                     : CUDNN_DATA_FLOAT;
}

std::vector<int> Lengths(const RnnCase& c) {
  return c.lengths.empty() ? std::vector<int>(static_cast<size_t>(c.rows), c.steps) : c.lengths;
}

// Creating one costs milliseconds, and there are thousands of cases. One thread uses it.
cudnnHandle_t SharedHandle() {
  static const cudnnHandle_t handle = [] {
    cudnnHandle_t made = nullptr;
    cudnnCreate(&made);
    return made;
  }();
  return handle;
}

// Element offset of step t, row n in the layout.
struct Offsets {
  const RnnCase& c;
  std::vector<int> lengths = Lengths(c);
  size_t operator()(int t, int n, int width) const {
    size_t row = 0;
    if (c.layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED) {
      row = static_cast<size_t>(n) * static_cast<size_t>(c.steps) + static_cast<size_t>(t);
    } else if (c.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED) {
      row = static_cast<size_t>(t) * static_cast<size_t>(c.rows) + static_cast<size_t>(n);
    } else {
      for (int s = 0; s < t; ++s)
        row += static_cast<size_t>(std::count_if(lengths.begin(), lengths.end(), [&](int l) { return l > s; }));
      row += static_cast<size_t>(n);
    }
    return row * static_cast<size_t>(width);
  }
};

}  // namespace

std::string RnnResult::Why() const {
  return ok() ? "ok"
              : stage + " -> " + cudnnGetErrorString(status) + " (" + std::to_string(static_cast<int>(status)) + ")";
}

RnnData MakeData(const RnnCase& c, unsigned seed) {
  std::mt19937 random(seed);
  RnnData data{MakeCell(c.kind, c.inputs, c.hidden, c.type), {}, {}, {}, {}};
  if (c.relu) data.cell.activations[0].kind = RNNSERVE_RELU;
  for (int d = 0; d < c.directions; ++d) data.weights.push_back(RandomWeights(data.cell, random));
  std::uniform_real_distribution<double> draw(-1, 1);
  const auto fill = [&](size_t count) {
    std::vector<double> values(count);
    for (double& v : values) v = RoundTo(c.type, draw(random));
    return values;
  };
  const auto states = static_cast<size_t>(c.directions) * static_cast<size_t>(c.rows) * static_cast<size_t>(c.hidden);
  data.x = fill(static_cast<size_t>(c.steps) * static_cast<size_t>(c.rows) * static_cast<size_t>(c.inputs));
  data.h0 = fill(states);
  data.c0 = fill(states);
  return data;
}

PreparedRnn::PreparedRnn(const RnnCase& c, const RnnData& data, cudaStream_t stream) : c_(c), stream_(stream) {
  Prepare(data);
}

PreparedRnn::~PreparedRnn() {
  cudaStreamSynchronize(stream_);
  for (void* buffer : buffers_) cudaFree(buffer);
  if (desc_ != nullptr) cudnnDestroyRNNDescriptor(desc_);
  if (dropout_ != nullptr) cudnnDestroyDropoutDescriptor(dropout_);
  if (x_desc_ != nullptr) cudnnDestroyRNNDataDescriptor(x_desc_);
  if (y_desc_ != nullptr) cudnnDestroyRNNDataDescriptor(y_desc_);
  for (cudnnTensorDescriptor_t desc : {h_desc_, c_desc_, m_desc_, b_desc_}) {
    if (desc != nullptr) cudnnDestroyTensorDescriptor(desc);
  }
}

bool PreparedRnn::Step(cudnnStatus_t status, const char* stage) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  result_.status = status;
  result_.stage = stage;
  return false;
}

void* PreparedRnn::Allocate(size_t bytes) {
  void* at = nullptr;
  if (cudaMalloc(&at, bytes + 16) != cudaSuccess) {
    cudaGetLastError();
    Step(CUDNN_STATUS_ALLOC_FAILED, "cudaMalloc");
    return nullptr;
  }
  buffers_.push_back(at);
  return at;
}

void* PreparedRnn::Upload(int type, const std::vector<double>& values) {
  std::vector<unsigned char> bytes(values.size() * ElementBytes(type));
  Encode(type, values.data(), values.size(), bytes.data());
  void* at = Allocate(bytes.size());
  if (at != nullptr) cudaMemcpy(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  return at;
}

// NOLINTNEXTLINE(readability-function-size): a list of cuDNN's calls.
bool PreparedRnn::Prepare(const RnnData& data) {
  const RnnCase& c = c_;
  const cudnnDataType_t type = CudnnType(c.type);
  const size_t element = ElementBytes(c.type);
  const std::vector<int> lengths = Lengths(c);
  const int width = (c.projection > 0 ? c.projection : c.hidden) * c.directions;
  handle_ = SharedHandle();
  if (!Step(cudnnSetStream(handle_, stream_), "cudnnSetStream")) return false;
  cudnnCreateRNNDescriptor(&desc_);
  cudnnCreateRNNDataDescriptor(&x_desc_);
  cudnnCreateRNNDataDescriptor(&y_desc_);
  for (cudnnTensorDescriptor_t* desc : {&h_desc_, &c_desc_, &m_desc_, &b_desc_}) cudnnCreateTensorDescriptor(desc);
  if (!c.null_dropout) {
    cudnnCreateDropoutDescriptor(&dropout_);
    if (!Step(cudnnSetDropoutDescriptor(dropout_, handle_, 0.0f, nullptr, 0, 0), "cudnnSetDropoutDescriptor"))
      return false;
  }
  const cudnnRNNMode_t mode = c.kind == RNNSERVE_LSTM  ? CUDNN_LSTM
                              : c.kind == RNNSERVE_GRU ? CUDNN_GRU
                              : c.relu                 ? CUDNN_RNN_RELU
                                                       : CUDNN_RNN_TANH;
  if (!Step(cudnnSetRNNDescriptor_v8(
                desc_, c.algo, mode, c.bias, c.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                CUDNN_LINEAR_INPUT, type, c.type == RNNSERVE_DOUBLE ? CUDNN_DATA_DOUBLE : c.math_precision, c.math,
                c.inputs, c.hidden, c.projection > 0 ? c.projection : c.hidden, 1, dropout_, c.flags),
            "cudnnSetRNNDescriptor_v8")) {
    return false;
  }
  if (c.clip > 0 && !Step(cudnnRNNSetClip_v9(desc_, CUDNN_RNN_CLIP_MINMAX, -c.clip, c.clip), "cudnnRNNSetClip_v9"))
    return false;
  double zero = 0;
  void* fill = c.fill ? &zero : nullptr;
  if (!Step(cudnnSetRNNDataDescriptor(x_desc_, type, c.layout, c.steps, c.rows, c.inputs, lengths.data(), fill),
            "cudnnSetRNNDataDescriptor(x)") ||
      !Step(cudnnSetRNNDataDescriptor(y_desc_, type, c.layout, c.steps, c.rows, width, lengths.data(), fill),
            "cudnnSetRNNDataDescriptor(y)")) {
    return false;
  }
  const int out = c.projection > 0 ? c.projection : c.hidden;
  const int h_sizes[] = {c.directions, c.rows, out};
  const int h_strides[] = {c.rows * out, out, 1};
  const int c_sizes[] = {c.directions, c.rows, c.hidden};
  const int c_strides[] = {c.rows * c.hidden, c.hidden, 1};
  if (!Step(cudnnSetTensorNdDescriptor(h_desc_, type, 3, h_sizes, h_strides), "cudnnSetTensorNdDescriptor") ||
      !Step(cudnnSetTensorNdDescriptor(c_desc_, type, 3, c_sizes, c_strides), "cudnnSetTensorNdDescriptor")) {
    return false;
  }
  if (!Step(cudnnGetRNNWeightSpaceSize(handle_, desc_, &result_.weight_bytes), "cudnnGetRNNWeightSpaceSize"))
    return false;
  weights_ = Allocate(result_.weight_bytes);
  if (weights_ == nullptr) return false;
  std::vector<unsigned char> image(result_.weight_bytes);
  std::vector<size_t> bias_layout;
  const auto gates = static_cast<int>(Gates(data.cell));
  for (int d = 0; d < c.directions; ++d) {
    for (int id = 0; id < 2 * gates; ++id) {
      void *m = nullptr, *b = nullptr;
      if (!Step(
              cudnnGetRNNWeightParams(handle_, desc_, d, result_.weight_bytes, weights_, id, m_desc_, &m, b_desc_, &b),
              "cudnnGetRNNWeightParams")) {
        return false;
      }
      const bool recurrent = id >= gates;
      const auto& ids = Ids(c.kind);
      const auto block = static_cast<size_t>(std::find(ids.begin(), ids.end(), id % gates) - ids.begin());
      const auto& w = data.weights[static_cast<size_t>(d)];
      const auto hidden = static_cast<size_t>(c.hidden);
      const auto inner = static_cast<size_t>(recurrent ? out : c.inputs);
      if (m != nullptr) {
        const auto at = static_cast<size_t>(static_cast<char*>(m) - static_cast<char*>(weights_));
        result_.layout.push_back(at / element);
        if (c.projection == 0) {
          Encode(c.type, (recurrent ? w.r : w.w).data() + block * hidden * inner, hidden * inner, image.data() + at);
        }
      }
      if (b != nullptr) {
        const auto at = static_cast<size_t>(static_cast<char*>(b) - static_cast<char*>(weights_));
        bias_layout.push_back(at / element);
        Encode(c.type, (recurrent ? w.rb : w.wb).data() + block * hidden, hidden, image.data() + at);
      }
    }
  }
  result_.layout.insert(result_.layout.end(), bias_layout.begin(), bias_layout.end());
  cudaMemcpy(weights_, image.data(), image.size(), cudaMemcpyHostToDevice);

  if (!Step(cudnnGetRNNTempSpaceSizes(handle_, desc_, CUDNN_FWD_MODE_INFERENCE, x_desc_, &result_.workspace,
                                      &result_.reserve),
            "cudnnGetRNNTempSpaceSizes")) {
    return false;
  }
  workspace_ = Allocate(result_.workspace);
  const auto cells = static_cast<size_t>(c.steps) * static_cast<size_t>(c.rows);
  const Offsets place{c};
  std::vector<double> x(cells * static_cast<size_t>(c.inputs));
  for (int t = 0; t < c.steps; ++t) {
    for (int n = 0; n < c.rows; ++n) {
      if (c.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED && t >= lengths[static_cast<size_t>(n)]) continue;
      const auto source = (static_cast<size_t>(t) * static_cast<size_t>(c.rows) + static_cast<size_t>(n)) *
                          static_cast<size_t>(c.inputs);
      std::copy_n(data.x.begin() + static_cast<std::ptrdiff_t>(source), c.inputs,
                  x.begin() + static_cast<std::ptrdiff_t>(place(t, n, c.inputs)));
    }
  }
  x_bytes_ = x.size() * element;
  y_bytes_ = cells * static_cast<size_t>(width) * element;
  x_ = Upload(c.type, x);
  y_ = Upload(c.type, std::vector<double>(cells * static_cast<size_t>(width), kSentinel));
  if (c.initial) {
    hx_ = Upload(c.type, data.h0);
    cx_ = Upload(c.type, data.c0);
  }
  if (c.final) {
    hy_ = c.alias_states ? hx_ : Upload(c.type, std::vector<double>(data.h0.size(), kSentinel));
    cy_ = c.alias_states ? cx_ : Upload(c.type, std::vector<double>(data.c0.size(), kSentinel));
  }
  if (c.device_lengths) {
    const std::vector<int32_t> garbage(static_cast<size_t>(c.rows), 1);
    device_lengths_ = static_cast<int32_t*>(Allocate(garbage.size() * 4));
    cudaMemcpy(device_lengths_, garbage.data(), garbage.size() * 4, cudaMemcpyHostToDevice);
  }
  if (c.build_dynamic && !Step(cudnnBuildRNNDynamic(handle_, desc_, c.rows), "cudnnBuildRNNDynamic")) return false;
  return result_.ok();
}

cudnnStatus_t PreparedRnn::Run() {
  const bool lstm = c_.kind == RNNSERVE_LSTM;
  return cudnnRNNForward(handle_, desc_, CUDNN_FWD_MODE_INFERENCE, device_lengths_, x_desc_, x_, y_desc_, y_, h_desc_,
                         hx_, hy_, c_desc_, lstm ? cx_ : nullptr, lstm ? cy_ : nullptr, result_.weight_bytes, weights_,
                         result_.workspace, workspace_, 0, nullptr);
}

RnnResult RunCudnn(const RnnCase& c, const RnnData& data) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  RnnResult result;
  {
    PreparedRnn rnn(c, data, stream);
    if (rnn.ok() && c.capture) {
      rnn.Step(rnn.Run(), "cudnnRNNForward (warm-up)");
      cudaStreamSynchronize(stream);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
      rnn.Step(rnn.Run(), "cudnnRNNForward (captured)");
      if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess) {
        cudaGetLastError();
        rnn.Step(CUDNN_STATUS_EXECUTION_FAILED, "graph capture");
      } else {
        cudaMemset(rnn.y_, 0x55, rnn.y_bytes_);
        cudaGraphLaunch(exec, stream);
        cudaGraphLaunch(exec, stream);
      }
      if (exec != nullptr) cudaGraphExecDestroy(exec);
      if (graph != nullptr) cudaGraphDestroy(graph);
    } else if (rnn.ok()) {
      rnn.Step(rnn.Run(), "cudnnRNNForward");
    }
    const cudaError_t ran = cudaStreamSynchronize(stream);
    if (ran != cudaSuccess) {
      cudaGetLastError();
      rnn.Step(CUDNN_STATUS_EXECUTION_FAILED, cudaGetErrorName(ran));
    }
    result = rnn.result_;
    if (result.ok()) {
      const int width = (c.projection > 0 ? c.projection : c.hidden) * c.directions;
      std::vector<unsigned char> bytes(rnn.y_bytes_);
      cudaMemcpy(bytes.data(), rnn.y_, bytes.size(), cudaMemcpyDeviceToHost);
      std::vector<double> raw(bytes.size() / ElementBytes(c.type));
      Decode(c.type, bytes.data(), raw.size(), raw.data());
      result.y.assign(raw.size(), kSentinel);
      const Offsets place{c};
      for (int t = 0; t < c.steps; ++t) {
        for (int n = 0; n < c.rows; ++n) {
          if (c.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED && t >= place.lengths[static_cast<size_t>(n)])
            continue;
          std::copy_n(raw.begin() + static_cast<std::ptrdiff_t>(place(t, n, width)), width,
                      result.y.begin() + (static_cast<std::ptrdiff_t>(t) * c.rows + n) * width);
        }
      }
      const auto fetch = [&](void* at) {
        std::vector<double> values;
        if (at == nullptr) return values;
        values.resize(data.h0.size());
        bytes.resize(values.size() * ElementBytes(c.type));
        cudaMemcpy(bytes.data(), at, bytes.size(), cudaMemcpyDeviceToHost);
        Decode(c.type, bytes.data(), values.size(), values.data());
        return values;
      };
      result.h = fetch(rnn.hy_);
      result.c = fetch(c.kind == RNNSERVE_LSTM ? rnn.cy_ : nullptr);
    }
  }
  cudaStreamDestroy(stream);
  return result;
}

RnnResult RunExpected(const RnnCase& c, const RnnData& data) {
  RnnResult result;
  const std::vector<int> lengths = Lengths(c);
  const auto hidden = static_cast<size_t>(c.hidden);
  const auto inputs = static_cast<size_t>(c.inputs);
  const auto rows = static_cast<size_t>(c.rows);
  const auto directions = static_cast<size_t>(c.directions);
  result.y.assign(static_cast<size_t>(c.steps) * rows * directions * hidden, 0.0);
  result.h = data.h0;
  result.c = data.c0;
  for (size_t d = 0; d < directions; ++d) {
    for (size_t n = 0; n < rows; ++n) {
      const auto length = static_cast<size_t>(lengths[n]);
      const size_t at = (d * rows + n) * hidden;
      HostState state{std::vector<double>(hidden, 0.0), std::vector<double>(hidden, 0.0)};
      if (c.initial) {
        std::copy_n(data.h0.begin() + static_cast<std::ptrdiff_t>(at), hidden, state.h.begin());
        std::copy_n(data.c0.begin() + static_cast<std::ptrdiff_t>(at), hidden, state.c.begin());
      }
      std::vector<double> x(length * inputs);
      const auto step_of = [&](size_t k) { return d == 0 ? k : length - 1 - k; };
      for (size_t k = 0; k < length; ++k) {
        std::copy_n(data.x.begin() + static_cast<std::ptrdiff_t>((step_of(k) * rows + n) * inputs), inputs,
                    x.begin() + static_cast<std::ptrdiff_t>(k * inputs));
      }
      const std::vector<double> y = RunReference(data.cell, data.weights[d], x, static_cast<int64_t>(length), state);
      for (size_t k = 0; k < length; ++k) {
        std::copy_n(
            y.begin() + static_cast<std::ptrdiff_t>(k * hidden), hidden,
            result.y.begin() + static_cast<std::ptrdiff_t>(((step_of(k) * rows + n) * directions + d) * hidden));
      }
      std::copy_n(state.h.begin(), hidden, result.h.begin() + static_cast<std::ptrdiff_t>(at));
      std::copy_n(state.c.begin(), hidden, result.c.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return result;
}

}  // namespace rnnserve::selftest
