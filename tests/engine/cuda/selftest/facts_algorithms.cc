// SPDX-License-Identifier: Apache-2.0
// Facts of cuDNN: which shapes the algorithms take, and what calls cost.
#include <chrono>

#include "tests/engine/cuda/selftest/fact_checks.h"
#include "tests/engine/cuda/selftest/facts.h"

namespace rnnserve::selftest {

void Algorithms() {
  struct Algo {
    cudnnRNNAlgo_t algo;
    const char* name;
  };
  for (const Algo algo :
       {Algo{CUDNN_RNN_ALGO_PERSIST_STATIC, "PERSIST_STATIC"}, Algo{CUDNN_RNN_ALGO_PERSIST_DYNAMIC, "PERSIST_DYNAMIC"},
        Algo{CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "SMALL_H"}}) {
    RnnCase c;
    c.algo = algo.algo;
    c.build_dynamic = algo.algo == CUDNN_RNN_ALGO_PERSIST_DYNAMIC;
    c.inputs = c.hidden = 128;
    c.rows = 8;
    const RnnData data = MakeData(c, 7);
    const RnnResult plain = RunCudnn(c, data);
    Note(std::string(algo.name) + ", float32 LSTM H = 128, N = 8", "%s, error %.2e", plain.Why().c_str(),
         Error(c, plain, RunExpected(c, data)));
    c.lengths = {5, 5, 4, 4, 3, 2, 1, 1};
    ExpectRefused(std::string(algo.name) + " refuses ragged lengths", c);
  }
  RnnCase c;
  c.algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  c.type = RNNSERVE_DOUBLE;
  c.math_precision = CUDNN_DATA_DOUBLE;
  c.math = CUDNN_DEFAULT_MATH;
  ExpectRefused("SMALL_H refuses float64", c);

  for (const RnnCase& cell : AllCells()) {
    for (const int type : {RNNSERVE_FLOAT, RNNSERVE_FLOAT16, RNNSERVE_BFLOAT16}) {
      for (const Algo algo : {Algo{CUDNN_RNN_ALGO_PERSIST_STATIC, "PERSIST_STATIC"},
                              Algo{CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "SMALL_H"}}) {
        std::string accepted, wrong;
        std::string last;
        for (const int hidden : {7, 17, 32, 64, 100, 128, 192, 256, 320, 384, 512, 768, 1024}) {
          for (const int rows : {1, 7, 32, 96, 256}) {
            RnnCase one = cell;
            one.type = type;
            one.math = type == RNNSERVE_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
            one.algo = algo.algo;
            one.hidden = one.inputs = hidden;
            one.rows = rows;
            one.steps = 3;
            one.final = true;
            const RnnData data = MakeData(one, 3);
            const RnnResult got = RunCudnn(one, data);
            if (!got.ok()) {
              last = got.Why();
              continue;
            }
            const std::string shape = std::to_string(hidden) + "x" + std::to_string(rows);
            accepted += " " + shape;
            if (hidden <= 256 && rows <= 32 && Error(one, got, RunExpected(one, data)) > Tolerance(type))
              wrong += " " + shape;
          }
        }
        const std::string name = std::string(algo.name) + " shapes (H x N), " + KindName(cell) + " " + TypeName(type);
        Note(name, "accepted:%s%s; last refusal: %s", accepted.empty() ? " none" : accepted.c_str(), "",
             last.empty() ? "none" : last.c_str());
        Report(wrong.empty(), name + ", values", "wrong at:%s", wrong.empty() ? " none" : wrong.c_str());
      }
    }
  }
}

void TemporarySpace() {
  for (const int steps : {1, 100, 1000}) {
    RnnCase c;
    c.inputs = c.hidden = 256;
    c.rows = 16;
    c.steps = steps;
    const RnnResult got = RunCudnn(c, MakeData(c, 1));
    Note("workspace, LSTM H = 256, N = 16, T = " + std::to_string(steps), "%s, %.2f MB", got.Why().c_str(),
         static_cast<double>(got.workspace) / 1e6);
  }
}

void Costs() {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto us = [](auto from, auto to) { return std::chrono::duration<double, std::micro>(to - from).count(); };
  cudnnHandle_t handle = nullptr;
  auto begin = now();
  cudnnCreate(&handle);
  const double create = us(begin, now());
  cudnnRNNDescriptor_t desc = nullptr;
  cudnnCreateRNNDescriptor(&desc);
  begin = now();
  for (int k = 0; k < 100; ++k) {
    cudnnSetRNNDescriptor_v8(desc, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                             CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 128, 128, 128, 1,
                             nullptr, CUDNN_RNN_PADDED_IO_ENABLED);
  }
  const double set = us(begin, now()) / 100;
  cudnnRNNDataDescriptor_t data = nullptr;
  cudnnCreateRNNDataDescriptor(&data);
  const std::vector<int> lengths(64, 100);
  begin = now();
  for (int k = 0; k < 100; ++k) {
    cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 100, 64, 128,
                              lengths.data(), nullptr);
  }
  const double set_data = us(begin, now()) / 100;
  size_t workspace = 0, reserve = 0;
  begin = now();
  for (int k = 0; k < 100; ++k)
    cudnnGetRNNTempSpaceSizes(handle, desc, CUDNN_FWD_MODE_INFERENCE, data, &workspace, &reserve);
  const double sizes = us(begin, now()) / 100;
  Note("host costs",
       "cudnnCreate %.0f us; cudnnSetRNNDescriptor_v8 %.2f us; cudnnSetRNNDataDescriptor %.2f us (T = 100, N = 64); "
       "cudnnGetRNNTempSpaceSizes %.2f us",
       create, set, set_data, sizes);
  cudnnDestroyRNNDataDescriptor(data);
  cudnnDestroyRNNDescriptor(desc);
  cudnnDestroy(handle);
}

}  // namespace rnnserve::selftest
