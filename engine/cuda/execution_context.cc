// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/execution_context.h"

#include "engine/cuda/error.h"

namespace rnnserve::cuda {
namespace {

constexpr size_t kLeastBytes = size_t{64} << 10;

size_t Grown(size_t bytes) { return bytes + bytes / 2 > kLeastBytes ? bytes + bytes / 2 : kLeastBytes; }

}  // namespace

ExecutionContext::ExecutionContext(Device& device) : ExecutionContext(device, Closed{}) {
  Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  products_ = std::make_unique<Products>(device, stream_);
  Check(cudnnCreate(&dnn_), "creating a cuDNN handle");
  Check(cudnnSetStream(dnn_, stream_), "cudnnSetStream");
  Check(cudaEventCreate(&begin_), "creating an event");
  Check(cudaEventCreate(&end_), "creating an event");
  Check(cudnnCreateRNNDataDescriptor(&x_desc_), "cudnnCreateRNNDataDescriptor");
  Check(cudnnCreateRNNDataDescriptor(&y_desc_), "cudnnCreateRNNDataDescriptor");
  Check(cudnnCreateTensorDescriptor(&state_desc_), "cudnnCreateTensorDescriptor");
}

ExecutionContext::~ExecutionContext() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (x_desc_ != nullptr) cudnnDestroyRNNDataDescriptor(x_desc_);
  if (y_desc_ != nullptr) cudnnDestroyRNNDataDescriptor(y_desc_);
  if (state_desc_ != nullptr) cudnnDestroyTensorDescriptor(state_desc_);
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  products_.reset();
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void ExecutionContext::Synchronize() const { Check(cudaStreamSynchronize(stream_), "running on the device"); }

void ExecutionContext::DropBuffers() {
  staging_ = DeviceBuffer();
  working_ = DeviceBuffer();
  scratch_ = DeviceBuffer();
}

std::byte* ExecutionContext::Grow(DeviceBuffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) {
    Synchronize();
    buffer = DeviceBuffer();  // first give back, then take: the budget needn't hold both
    try {
      buffer = DeviceBuffer(device_, Grown(bytes), DeviceBuffer::Room::kAsItIs);
    } catch (const Error& refused) {
      if (!refused.is_short_of_memory()) throw;
      buffer = DeviceBuffer(device_, bytes);  // room to grow is a wish
    }
  }
  return buffer.data();
}

std::byte* ExecutionContext::GrowPinned(PinnedBuffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) {
    Synchronize();
    buffer = PinnedBuffer();
    buffer = PinnedBuffer(Grown(bytes));
  }
  return buffer.data();
}

}  // namespace rnnserve::cuda
