// SPDX-License-Identifier: Apache-2.0
// One bare cudnnRNNForward, every choice of it a field, reporting at which call cuDNN refused: for the facts and as the
// peer of the benchmarks.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>
#include <vector>

#include "tests/engine/cuda/selftest/selftest.h"

namespace rnnserve::selftest {

struct RnnCase {
  int kind = RNNSERVE_LSTM;
  bool relu = false;  // RNN
  int directions = 1;
  int inputs = 16, hidden = 32, steps = 5, rows = 4, projection = 0;
  std::vector<int> lengths;  // empty: all `steps`
  int type = RNNSERVE_FLOAT;
  cudnnDataType_t math_precision = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  cudnnRNNAlgo_t algo = CUDNN_RNN_ALGO_STANDARD;
  cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  uint32_t flags = CUDNN_RNN_PADDED_IO_ENABLED;
  bool fill = true;             // padding fill of zero; false: NULL
  bool null_dropout = true;     // false: a descriptor made with NULL states
  bool device_lengths = false;  // pass garbage lengths on the device
  bool build_dynamic = false;
  bool initial = true, final = true;
  bool alias_states = false;  // hy = hx, cy = cx
  double clip = 0;            // > 0: cudnnRNNSetClip_v9
  bool capture = false;       // run through a captured graph, twice
};

struct RnnData {
  rnnserve_cell cell;
  std::vector<Weights> weights;  // one a direction
  std::vector<double> x;         // [T, N, I]
  std::vector<double> h0, c0;    // [D, N, H]
};
RnnData MakeData(const RnnCase& c, unsigned seed);

inline constexpr double kSentinel = 77.0;  // fills y, hy, cy before the call

struct RnnResult {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string stage;         // where it failed
  std::vector<double> y;     // [T, N, D*H], whatever the layout; padded positions as found
  std::vector<double> h, c;  // [D, N, H]
  size_t workspace = 0, reserve = 0;
  std::vector<size_t> layout;  // offsets of matrices by id and direction, then of biases
  size_t weight_bytes = 0;
  bool ok() const { return status == CUDNN_STATUS_SUCCESS && stage.empty(); }
  std::string Why() const;
};
RnnResult RunCudnn(const RnnCase& c, const RnnData& data);
// By the host reference; padded positions of y are 0.
RnnResult RunExpected(const RnnCase& c, const RnnData& data);

// A prepared call for timing: device buffers and descriptors of a uniform batch.
class PreparedRnn {
 public:
  PreparedRnn(const RnnCase& c, const RnnData& data, cudaStream_t stream);
  ~PreparedRnn();
  PreparedRnn(const PreparedRnn&) = delete;
  PreparedRnn& operator=(const PreparedRnn&) = delete;
  bool ok() const { return result_.ok(); }
  // x, h, c on the device in, y, hy, cy out. Asynchronous.
  cudnnStatus_t Run();
  void* x() const { return x_; }
  void* y() const { return y_; }
  size_t x_bytes() const { return x_bytes_; }
  size_t y_bytes() const { return y_bytes_; }
  const RnnResult& result() const { return result_; }

 private:
  friend RnnResult RunCudnn(const RnnCase& c, const RnnData& data);
  bool Step(cudnnStatus_t status, const char* stage);
  bool Prepare(const RnnData& data);
  void* Allocate(size_t bytes);
  void* Upload(int type, const std::vector<double>& values);

  RnnCase c_;
  RnnResult result_;
  cudaStream_t stream_;
  cudnnHandle_t handle_ = nullptr;
  cudnnRNNDescriptor_t desc_ = nullptr;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  cudnnRNNDataDescriptor_t x_desc_ = nullptr, y_desc_ = nullptr;
  cudnnTensorDescriptor_t h_desc_ = nullptr, c_desc_ = nullptr, m_desc_ = nullptr, b_desc_ = nullptr;
  std::vector<void*> buffers_;
  void *x_ = nullptr, *y_ = nullptr, *hx_ = nullptr, *cx_ = nullptr, *hy_ = nullptr, *cy_ = nullptr;
  void *weights_ = nullptr, *workspace_ = nullptr;
  int32_t* device_lengths_ = nullptr;
  size_t x_bytes_ = 0, y_bytes_ = 0;
};

}  // namespace rnnserve::selftest
