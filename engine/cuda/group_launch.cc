// SPDX-License-Identifier: Apache-2.0
// Program::Group: what the device does before and after a block's computation, from pinned memory and back.
#include "engine/cuda/error.h"
#include "engine/cuda/group.h"
#include "engine/cuda/kernels.h"

namespace rnnserve::cuda {

void Program::Group::LaunchInputs() {
  const rnnserve_cell& cell = program_.cell_;
  const cudaStream_t stream = context_.stream();
  Check(cudaMemcpyAsync(staging_, pinned_in_, in_.size, cudaMemcpyHostToDevice, stream),
        "copying inputs to the device");
  if (!plain()) {
    LaunchPack(cell.data_type, staged<void>(in_.x), program_.run_type_, working_ + at_.x,
               staged<const Walk>(in_.walks_x), staged<const int64_t>(in_.offsets), block_, cell.input_size, stream);
  }
  if (first_block()) {
    LaunchGatherStates(program_.compute_type(), staged<const void* const>(in_.slots_before), program_.run_type_,
                       working_ + at_.h[current_], program_.lstm() ? working_ + at_.c[current_] : nullptr,
                       block_.active, cell.hidden_size, stream);
  }
}

void Program::Group::StartOutputs() {
  const rnnserve_cell& cell = program_.cell_;
  const cudaStream_t stream = context_.stream();
  const int next = current_ ^ 1;
  const int ending = block_.active - block_.continuing;
  if (ending > 0) {
    const size_t skip = static_cast<size_t>(block_.continuing) * static_cast<size_t>(cell.hidden_size) *
                        ElementBytes(program_.run_type_);
    LaunchScatterStates(program_.run_type_, working_ + at_.h[next] + skip,
                        program_.lstm() ? working_ + at_.c[next] + skip : nullptr, program_.compute_type(),
                        staged<void* const>(in_.slots_after) + block_.continuing, ending, cell.hidden_size, stream);
  }
  if (pinned_y_ != nullptr) {
    const std::byte* y = working_ + at_.y;
    if (!plain()) {
      LaunchUnpack(program_.run_type_, y, cell.data_type, working_ + at_.y_staged, staged<const Walk>(in_.walks_y),
                   staged<const int64_t>(in_.offsets), block_, cell.hidden_size, stream);
      y = working_ + at_.y_staged;
    }
    Check(
        cudaMemcpyAsync(pinned_y_, y, static_cast<size_t>(block_.rows) * y_row_bytes(), cudaMemcpyDeviceToHost, stream),
        "copying outputs from the device");
  }
  if (first_block() && !spent_.empty()) {
    LaunchWipe(staged<const SpentSlot>(in_.spent), static_cast<int>(spent_.size()), stream);
  }
  CheckLaunch("launching kernels");
}

}  // namespace rnnserve::cuda
