// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/general_path.h"

#include <type_traits>
#include <vector>

#include "engine/cuda/error.h"
#include "engine/cuda/kernels.h"

namespace rnnserve::cuda {
namespace {

size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

GeneralPath::GeneralPath(Device& device, const rnnserve_cell& cell, const rnnserve_weights& weights) : cell_(cell) {
  if (cell.data_type == RNNSERVE_DOUBLE) {
    Upload<double>(device, weights);
  } else {
    Upload<float>(device, weights);
  }
}

template <typename T>
void GeneralPath::Upload(Device& device, const rnnserve_weights& weights) {
  const int64_t hidden = cell_.hidden_size;
  const int64_t wide = GateCount(cell_.kind) * hidden;
  std::vector<T> image;
  const auto add = [&](const void* values, int64_t count) {
    const auto at = static_cast<int64_t>(image.size());
    const T* first = static_cast<const T*>(values);
    image.insert(image.end(), first, first + count);
    image.resize((image.size() + 31) / 32 * 32);  // each part on a boundary of 128 bytes at least
    return at;
  };
  add(weights.w, wide * cell_.input_size);
  r_ = add(weights.r, wide * hidden);
  wb_ = add(weights.wb, wide);
  rb_ = add(weights.rb, wide);
  std::vector<T> bias(static_cast<size_t>(wide));
  for (size_t k = 0; k < bias.size(); ++k) {
    bias[k] = static_cast<const T*>(weights.wb)[k] + static_cast<const T*>(weights.rb)[k];
  }
  bias_ = add(bias.data(), wide);
  if (cell_.has_peephole) p_ = add(weights.p, 3 * hidden);
  weights_ = DeviceBuffer(device, image.size() * sizeof(T));
  CopyToDevice(weights_.data(), image.data(), weights_.size(), "copying weights");
}

size_t GeneralPath::TemporaryBytes(int64_t rows, int64_t active) const {
  const auto element = static_cast<int64_t>(ElementBytes(ComputeType(cell_.data_type)));
  const int64_t wide = GateCount(cell_.kind) * cell_.hidden_size;
  return Aligned(static_cast<size_t>(rows * wide * element)) + Aligned(static_cast<size_t>(active * wide * element));
}

void GeneralPath::Run(const Work& work) const {
  if (cell_.data_type == RNNSERVE_DOUBLE) {
    RunTyped<double>(work);
  } else {
    RunTyped<float>(work);
  }
}

template <typename T>
void GeneralPath::RunTyped(const Work& work) const {
  const Block& block = work.block;
  const int64_t hidden = cell_.hidden_size;
  const int64_t inner = cell_.input_size;
  const int64_t wide = GateCount(cell_.kind) * hidden;
  const cudaStream_t stream = work.context.stream();
  const T* weights = weights_.as<T>();
  const T* r = weights + r_;
  T* gates = static_cast<T*>(work.temporary);
  // GRU only: the recurrent product apart, or r (.) h.
  T* aside = reinterpret_cast<T*>(static_cast<std::byte*>(work.temporary) +
                                  Aligned(static_cast<size_t>(block.rows * wide) * sizeof(T)));
  const CellMath<T> math = MakeCellMath<T>(cell_);

  // out = in * weights^T, or added to it.
  const auto product = [&](const T* by, const T* in, T* out, int64_t rows, int64_t width, int64_t length, bool adds) {
    work.context.products().Run({.rows = rows,
                                 .width = width,
                                 .inner = length,
                                 .out_stride = wide,
                                 .adds = adds,
                                 .is_double = std::is_same_v<T, double>,
                                 .tf32 = cell_.allow_reduced_precision != 0},
                                by, in, out);
  };
  if (inner > 0) {
    product(weights, static_cast<const T*>(work.x), gates, block.rows, wide, inner, false);
  } else {
    Check(cudaMemsetAsync(gates, 0, static_cast<size_t>(block.rows * wide) * sizeof(T), stream), "clearing gates");
  }
  for (int t = 0; t < block.steps; ++t) {
    const int rows = ActiveAt(block, t);
    const int64_t offset = block.offsets[static_cast<size_t>(t)];
    const T* h = static_cast<const T*>(t == 0 ? work.h_in : work.h_out);
    const T* c = static_cast<const T*>(t == 0 ? work.c_in : work.c_out);
    T* h_out = static_cast<T*>(work.h_out);
    T* pre = gates + offset * wide;
    T* y = static_cast<T*>(work.y) + offset * hidden;
    switch (cell_.kind) {
      case RNNSERVE_LSTM:
        product(r, h, pre, rows, wide, hidden, true);
        LaunchLstm<T>({pre, weights + bias_, cell_.has_peephole ? weights + p_ : nullptr, c,
                       static_cast<T*>(work.c_out), h_out, y, rows, hidden, math},
                      stream);
        break;
      case RNNSERVE_GRU: {
        const GruStep<T> step{pre, aside, weights + wb_, weights + rb_, h, aside, h_out, y, rows, hidden, math};
        if (cell_.linear_before_reset) {
          product(r, h, aside, rows, wide, hidden, false);
          LaunchGruLinear<T>(step, stream);
        } else {
          product(r, h, pre, rows, 2 * hidden, hidden, true);
          LaunchGruReset<T>(step, stream);
          product(r + 2 * hidden * hidden, aside, pre + 2 * hidden, rows, hidden, hidden, true);
          LaunchGruBlend<T>(step, stream);
        }
        break;
      }
      default:
        product(r, h, pre, rows, wide, hidden, true);
        LaunchRnn<T>({pre, weights + bias_, h_out, y, rows, hidden, math}, stream);
        break;
    }
  }
  CheckLaunch("launching gate kernels");
}

}  // namespace rnnserve::cuda
