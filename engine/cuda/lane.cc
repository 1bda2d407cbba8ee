// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/lane.h"

#include "engine/cuda/error.h"

namespace rnnserve::cuda {
namespace {

// What cuBLAS recommends for Hopper; a workspace of our own keeps it from allocating and from sharing between streams.
constexpr size_t kBlasWorkspaceBytes = size_t{32} << 20;
constexpr size_t kLeastBytes = size_t{64} << 10;

size_t Grown(size_t bytes) { return bytes + bytes / 2 > kLeastBytes ? bytes + bytes / 2 : kLeastBytes; }

}  // namespace

Lane::Lane(Device& device) : Lane(device, Closed{}) {
  blas_workspace_ = DeviceBuffer(device, kBlasWorkspaceBytes);
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  Check(cublasCreate(&blas_), "creating a cuBLAS handle");
  Check(cublasSetStream(blas_, stream_), "cublasSetStream");
  Check(cublasSetWorkspace(blas_, blas_workspace_.data(), kBlasWorkspaceBytes), "cublasSetWorkspace");
  Check(cudnnCreate(&dnn_), "creating a cuDNN handle");
  Check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
  Check(cudaEventCreate(&begin_), "creating an event");
  Check(cudaEventCreate(&end_), "creating an event");
  Check(cudnnCreateRNNDataDescriptor(&x_desc_), "cudnnCreateRNNDataDescriptor");
  Check(cudnnCreateRNNDataDescriptor(&y_desc_), "cudnnCreateRNNDataDescriptor");
  Check(cudnnCreateTensorDescriptor(&state_desc_), "cudnnCreateTensorDescriptor");
}

Lane::~Lane() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (x_desc_ != nullptr) cudnnDestroyRNNDataDescriptor(x_desc_);
  if (y_desc_ != nullptr) cudnnDestroyRNNDataDescriptor(y_desc_);
  if (state_desc_ != nullptr) cudnnDestroyTensorDescriptor(state_desc_);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasDestroy(blas_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void Lane::Synchronize() const { Check(cudaStreamSynchronize(stream_), "running on the device"); }

std::byte* Lane::Grow(DeviceBuffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) {
    Synchronize();
    buffer = DeviceBuffer();  // first give back, then take: the budget needn't hold both
    buffer = DeviceBuffer(device_, Grown(bytes));
  }
  return buffer.data();
}

std::byte* Lane::GrowPinned(PinnedBuffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) {
    Synchronize();
    buffer = PinnedBuffer();
    buffer = PinnedBuffer(Grown(bytes));
  }
  return buffer.data();
}

}  // namespace rnnserve::cuda
