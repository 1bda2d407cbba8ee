// SPDX-License-Identifier: Apache-2.0
// kernels.h for the fake device: what the kernels' threads do, one after the other.
#include "engine/cuda/kernel_types.h"
#include "engine/cuda/kernels.h"
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
  stream->work.push_back([=] {
    for (int64_t k = 0; k < count; ++k) fn(k);
  });
}

template <typename Fn>
void LaunchRows(cudaStream_t stream, int64_t rows, Fn fn) {
  Launch(stream, rows, [fn](int64_t row) {
    for (const RowShare share : kShares) fn(row, share);
  });
}

}  // namespace

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
