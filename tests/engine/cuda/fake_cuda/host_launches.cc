// SPDX-License-Identifier: Apache-2.0
// kernels.h for the fake device: what the kernels' threads do, one after the other.
#include <algorithm>
#include <vector>

#include "engine/cuda/kernel_types.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/resident.h"
#include "engine/cuda/rows.h"
#include "tests/engine/cuda/fake_cuda/fake_device.h"

namespace rnnserve::cuda {
namespace {

// Two threads a row.
constexpr RowShare kShares[] = {{0, 2}, {1, 2}};

template <typename Fn>
void Launch(cudaStream_t stream, int64_t count, Fn fn) {
  fake_cuda::FakeDevice& device = fake_cuda::FakeDevice::Get();
  if (device.lost() != cudaSuccess) return;
  if (device.Has("no_kernel_image")) {
    device.Fail(cudaErrorNoKernelImageForDevice);
    return;
  }
  stream->Push([=] {
    for (int64_t k = 0; k < count; ++k) fn(k);
  });
}

template <typename Fn>
void LaunchRows(cudaStream_t stream, int64_t rows, Fn fn) {
  Launch(stream, rows, [fn](int64_t row) {
    for (const RowShare share : kShares) fn(row, share);
  });
}

// out[n, first + g] = (adds: out +) matrix[g, :] . in[n, :].
void Product(const float* matrix, const float* in, float* out, int64_t rows, int64_t columns, int64_t inner,
             int64_t wide, bool adds) {
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t g = 0; g < columns; ++g) {
      float sum = adds ? out[n * wide + g] : 0;
      for (int64_t k = 0; k < inner; ++k) sum += matrix[g * inner + k] * in[n * inner + k];
      out[n * wide + g] = sum;
    }
  }
}

// What the resident kernel leaves: y of all steps, and the states of the sequences that end.
void RunResidentOnHost(const ResidentRun& run) {
  const int64_t hidden = run.hidden;
  const int64_t wide = hidden * (run.kind == RNNSERVE_LSTM ? 4 : run.kind == RNNSERVE_GRU ? 3 : 1);
  std::vector<float> bias(static_cast<size_t>(wide));
  for (size_t k = 0; k < bias.size(); ++k) bias[k] = run.wb[k] + run.rb[k];
  const float* h = run.h_in;
  const float* c = run.c_in;
  for (int t = 0; t < run.steps; ++t) {
    const int64_t first = run.offsets[t];
    const int64_t end = t + 1 < run.steps ? run.offsets[t + 1] : run.rows;
    const auto rows = static_cast<int>(end - first);
    float* const pre = run.pre + first * wide;
    float* const y = run.y + first * hidden;
    std::vector<float> aside(static_cast<size_t>(rows * wide)), copy(static_cast<size_t>(rows * hidden));
    const auto units = [&](const auto& step, auto at) {
      for (int64_t k = 0; k < rows * hidden; ++k) at(step, k);
    };
    if (run.kind == RNNSERVE_LSTM) {
      Product(run.r, h, pre, rows, wide, hidden, wide, true);
      units(LstmStep<float>{pre, bias.data(), run.peephole, c, run.c_out, copy.data(), y, rows, hidden, run.math},
            LstmAt<float>);
      c = run.c_out;
    } else if (run.kind == RNNSERVE_RNN) {
      Product(run.r, h, pre, rows, wide, hidden, wide, true);
      units(RnnStep<float>{pre, bias.data(), copy.data(), y, rows, hidden, run.math}, RnnAt<float>);
    } else {
      const bool linear = run.linear_before_reset;
      const GruStep<float> step{pre, aside.data(), run.wb, run.rb,  h, run.reset_h, copy.data(),
                                y,   rows,         hidden, run.math};
      Product(run.r, h, linear ? aside.data() : pre, rows, linear ? wide : 2 * hidden, hidden, wide, !linear);
      if (linear) {
        units(step, GruLinearAt<float>);
      } else {
        units(step, GruResetAt<float>);
        Product(run.r + 2 * hidden * hidden, run.reset_h, pre + 2 * hidden, rows, hidden, hidden, wide, true);
        units(step, GruBlendAt<float>);
      }
    }
    std::copy_n(copy.data(), copy.size(), run.h_out);
    h = y;
  }
}

}  // namespace

void LaunchResident(const ResidentRun& run, const ResidentPlan&, cudaStream_t stream) {
  fake_cuda::FakeDevice& device = fake_cuda::FakeDevice::Get();
  if (device.Has("resident_refused")) {
    device.Count("resident_refused");
    device.Fail(cudaErrorCooperativeLaunchTooLarge);
    return;
  }
  device.Count("resident");
  Launch(stream, 1, [run](int64_t) {
    fake_cuda::FakeDevice::Get().Count("resident_ran", 1);
    RunResidentOnHost(run);
  });
}

void LaunchPack(int staged_type, const void* staged, int packed_type, void* packed, const Walk* walks,
                const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream) {
  if (width == 0) return;
  WithTypes(staged_type, packed_type, [&]<typename From, typename To>(From*, To*) {
    LaunchRows(stream, block.rows, [=, steps = block.steps](int64_t row, RowShare share) {
      PackRow(static_cast<const From*>(staged), static_cast<To*>(packed), walks, offsets, steps, row, width, share);
    });
  });
}

void LaunchUnpack(int packed_type, const void* packed, int staged_type, void* staged, const Walk* walks,
                  const int64_t* offsets, const Block& block, int64_t width, cudaStream_t stream) {
  WithTypes(packed_type, staged_type, [&]<typename From, typename To>(From*, To*) {
    LaunchRows(stream, block.rows, [=, steps = block.steps](int64_t row, RowShare share) {
      UnpackRow(static_cast<const From*>(packed), static_cast<To*>(staged), walks, offsets, steps, row, width, share);
    });
  });
}

void LaunchGatherStates(int slot_type, const void* const* slots, int packed_type, void* h, void* c, int rows,
                        int64_t hidden, cudaStream_t stream) {
  WithStateTypes(slot_type, packed_type, [&]<typename Slot, typename Packed>(Slot*, Packed*) {
    LaunchRows(stream, rows, [=](int64_t row, RowShare share) {
      GatherRow(static_cast<const Slot*>(slots[row]), static_cast<Packed*>(h), static_cast<Packed*>(c), row, hidden,
                share);
    });
  });
}

void LaunchScatterStates(int packed_type, const void* h, const void* c, int slot_type, void* const* slots, int rows,
                         int64_t hidden, cudaStream_t stream) {
  WithStateTypes(slot_type, packed_type, [&]<typename Slot, typename Packed>(Slot*, Packed*) {
    LaunchRows(stream, rows, [=](int64_t row, RowShare share) {
      ScatterRow(static_cast<const Packed*>(h), static_cast<const Packed*>(c), static_cast<Slot*>(slots[row]), row,
                 hidden, share);
    });
  });
}

void LaunchWipe(const SpentSlot* slots, int count, cudaStream_t stream) {
  LaunchRows(stream, count, [=](int64_t row, RowShare share) { WipeSlot(slots[row], share); });
}

template <typename T>
void LaunchLstm(const LstmStep<T>& step, cudaStream_t stream) {
  Launch(stream, step.rows * step.hidden, [step](int64_t at) { LstmAt(step, at); });
}
template <typename T>
void LaunchGruLinear(const GruStep<T>& step, cudaStream_t stream) {
  Launch(stream, step.rows * step.hidden, [step](int64_t at) { GruLinearAt(step, at); });
}
template <typename T>
void LaunchGruReset(const GruStep<T>& step, cudaStream_t stream) {
  Launch(stream, step.rows * step.hidden, [step](int64_t at) { GruResetAt(step, at); });
}
template <typename T>
void LaunchGruBlend(const GruStep<T>& step, cudaStream_t stream) {
  Launch(stream, step.rows * step.hidden, [step](int64_t at) { GruBlendAt(step, at); });
}
template <typename T>
void LaunchRnn(const RnnStep<T>& step, cudaStream_t stream) {
  Launch(stream, step.rows * step.hidden, [step](int64_t at) { RnnAt(step, at); });
}

template void LaunchLstm(const LstmStep<float>&, cudaStream_t);
template void LaunchLstm(const LstmStep<double>&, cudaStream_t);
template void LaunchGruLinear(const GruStep<float>&, cudaStream_t);
template void LaunchGruLinear(const GruStep<double>&, cudaStream_t);
template void LaunchGruReset(const GruStep<float>&, cudaStream_t);
template void LaunchGruReset(const GruStep<double>&, cudaStream_t);
template void LaunchGruBlend(const GruStep<float>&, cudaStream_t);
template void LaunchGruBlend(const GruStep<double>&, cudaStream_t);
template void LaunchRnn(const RnnStep<float>&, cudaStream_t);
template void LaunchRnn(const RnnStep<double>&, cudaStream_t);

}  // namespace rnnserve::cuda
