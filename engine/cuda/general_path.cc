// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/general_path.h"

#include <type_traits>
#include <vector>

#include "engine/cuda/error.h"
#include "engine/cuda/kernels.h"

namespace rnnserve::cuda {
namespace {

size_t Aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

constexpr size_t kArrivalsBytes = 256;  // of a resident launch, at the end of the temporary memory

template <typename T>
ProductShape ShapeOf(const rnnserve_cell& cell, int64_t rows, int64_t width, int64_t inner, bool adds) {
  return {.rows = rows,
          .width = width,
          .inner = inner,
          .out_stride = GateCount(cell.kind) * cell.hidden_size,
          .adds = adds,
          .is_double = std::is_same_v<T, double>,
          .tf32 = cell.allow_reduced_precision != 0};
}

}  // namespace

GeneralPath::GeneralPath(Device& device, const rnnserve_cell& cell, const rnnserve_weights& weights)
    : limits_(device.resident_limits()), cell_(cell) {
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
  return Aligned(static_cast<size_t>(rows * wide * element)) + Aligned(static_cast<size_t>(active * wide * element)) +
         kArrivalsBytes;
}

ResidentPlan GeneralPath::PlanOf(const Block& block) const {
  return PlanResident(limits_, static_cast<int>(GateCount(cell_.kind)), cell_.hidden_size, block.active);
}

// One step has nothing to keep.
bool GeneralPath::MayRun(Recurrence recurrence, const Block& block) const {
  return recurrence == Recurrence::kSteps ||
         (cell_.data_type != RNNSERVE_DOUBLE && block.steps > 1 && PlanOf(block).units > 0);
}

void GeneralPath::Run(Recurrence recurrence, const Work& work) const {
  if (cell_.data_type == RNNSERVE_DOUBLE) {
    RunTyped<double>(recurrence, work);
  } else {
    RunTyped<float>(recurrence, work);
  }
}

template <typename T>
void GeneralPath::RunTyped(Recurrence recurrence, const Work& work) const {
  const int64_t wide = GateCount(cell_.kind) * cell_.hidden_size;
  const auto bytes = static_cast<size_t>(work.block.rows * wide) * sizeof(T);
  T* const gates = static_cast<T*>(work.temporary);
  // GRU only: the recurrent product apart, or r (.) h.
  T* const aside = reinterpret_cast<T*>(static_cast<std::byte*>(work.temporary) + Aligned(bytes));
  if (cell_.input_size > 0) {
    work.context.products().Run(ShapeOf<T>(cell_, work.block.rows, wide, cell_.input_size, false), weights_.as<T>(),
                                work.x, gates);
  } else {
    Check(cudaMemsetAsync(gates, 0, bytes, work.context.stream()), "clearing gates");
  }
  if constexpr (std::is_same_v<T, float>) {
    if (recurrence == Recurrence::kResident) return RunResident(work, gates, aside);
  }
  RunSteps<T>(work, gates, aside);
}

void GeneralPath::RunResident(const Work& work, float* gates, float* aside) const {
  const float* weights = weights_.as<float>();
  const size_t behind_aside = TemporaryBytes(0, work.block.active) - kArrivalsBytes;
  auto* const arrivals = reinterpret_cast<unsigned*>(reinterpret_cast<std::byte*>(aside) + behind_aside);
  Check(cudaMemsetAsync(arrivals, 0, sizeof *arrivals, work.context.stream()), "clearing arrivals");
  LaunchResident({.kind = cell_.kind,
                  .linear_before_reset = cell_.linear_before_reset != 0,
                  .pre = gates,
                  .r = weights + r_,
                  .wb = weights + wb_,
                  .rb = weights + rb_,
                  .peephole = cell_.has_peephole ? weights + p_ : nullptr,
                  .h_in = static_cast<const float*>(work.h_in),
                  .c_in = static_cast<const float*>(work.c_in),
                  .h_out = static_cast<float*>(work.h_out),
                  .c_out = static_cast<float*>(work.c_out),
                  .reset_h = aside,
                  .y = static_cast<float*>(work.y),
                  .arrivals = arrivals,
                  .offsets = work.offsets,
                  .rows = work.block.rows,
                  .steps = work.block.steps,
                  .hidden = static_cast<int>(cell_.hidden_size),
                  .math = MakeCellMath<float>(cell_)},
                 PlanOf(work.block), work.context.stream());
  CheckLaunch("launching a resident recurrence");
}

template <typename T>
void GeneralPath::RunSteps(const Work& work, T* gates, T* aside) const {
  const Block& block = work.block;
  const int64_t hidden = cell_.hidden_size;
  const int64_t wide = GateCount(cell_.kind) * hidden;
  const cudaStream_t stream = work.context.stream();
  const T* weights = weights_.as<T>();
  const T* r = weights + r_;
  const CellMath<T> math = MakeCellMath<T>(cell_);

  // out = in * weights^T, or added to it.
  const auto product = [&](const T* by, const T* in, T* out, int64_t rows, int64_t width, bool adds) {
    work.context.products().Run(ShapeOf<T>(cell_, rows, width, hidden, adds), by, in, out);
  };
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
        product(r, h, pre, rows, wide, true);
        LaunchLstm<T>({pre, weights + bias_, cell_.has_peephole ? weights + p_ : nullptr, c,
                       static_cast<T*>(work.c_out), h_out, y, rows, hidden, math},
                      stream);
        break;
      case RNNSERVE_GRU: {
        const GruStep<T> step{pre, aside, weights + wb_, weights + rb_, h, aside, h_out, y, rows, hidden, math};
        if (cell_.linear_before_reset) {
          product(r, h, aside, rows, wide, false);
          LaunchGruLinear<T>(step, stream);
        } else {
          product(r, h, pre, rows, 2 * hidden, true);
          LaunchGruReset<T>(step, stream);
          product(r + 2 * hidden * hidden, aside, pre + 2 * hidden, rows, hidden, true);
          LaunchGruBlend<T>(step, stream);
        }
        break;
      }
      default:
        product(r, h, pre, rows, wide, true);
        LaunchRnn<T>({pre, weights + bias_, h_out, y, rows, hidden, math}, stream);
        break;
    }
  }
  CheckLaunch("launching gate kernels");
}

}  // namespace rnnserve::cuda
