// SPDX-License-Identifier: Apache-2.0
// A context: a stream, the libraries' handles on it, and buffers that grow. One call at a time.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <utility>

#include "engine/cuda/device.h"
#include "engine/cuda/products.h"

namespace rnnserve::cuda {

class ExecutionContext {
 public:
  explicit ExecutionContext(Device& device);
  ~ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  cudaStream_t stream() const { return stream_; }
  Products& products() const { return *products_; }
  cudnnHandle_t dnn() const { return dnn_; }
  Device& device() const { return device_; }

  // At least `bytes`; the content is lost when it grows. The context must be idle.
  std::byte* Staging(size_t bytes) { return Grow(staging_, bytes); }  // device side of the copies in
  std::byte* Working(size_t bytes) { return Grow(working_, bytes); }  // packed x, y, states, gates
  std::byte* Scratch(size_t bytes) { return Grow(scratch_, bytes); }  // cuDNN's workspace
  std::byte* PinnedIn(size_t bytes) { return GrowPinned(pinned_in_, bytes); }
  std::byte* PinnedOut(size_t bytes) { return GrowPinned(pinned_out_, bytes); }

  // Timing of trials.
  cudaEvent_t begin() const { return begin_; }
  cudaEvent_t end() const { return end_; }

  // Data descriptors of the current block; cheap host objects that are refilled.
  cudnnRNNDataDescriptor_t x_desc() const { return x_desc_; }
  cudnnRNNDataDescriptor_t y_desc() const { return y_desc_; }
  cudnnTensorDescriptor_t state_desc() const { return state_desc_; }

  void Synchronize() const;
  // Of an idle context: they grow again when they are needed.
  void DropBuffers();

 private:
  struct Closed {};
  // Delegated to, so that the destructor cleans up after a constructor that throws half-way.
  ExecutionContext(Device& device, Closed) : device_(device) {}

  std::byte* Grow(DeviceBuffer& buffer, size_t bytes);
  std::byte* GrowPinned(PinnedBuffer& buffer, size_t bytes);

  Device& device_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Products> products_;
  cudnnHandle_t dnn_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudnnRNNDataDescriptor_t x_desc_ = nullptr;
  cudnnRNNDataDescriptor_t y_desc_ = nullptr;
  cudnnTensorDescriptor_t state_desc_ = nullptr;
  DeviceBuffer staging_, working_, scratch_;
  PinnedBuffer pinned_in_, pinned_out_;
};

// Takes a context, and gives it back idle.
class ContextLease {
 public:
  explicit ContextLease(Device& device) : ContextLease(device, device.TakeContext()) {}
  ContextLease(Device& device, std::unique_ptr<ExecutionContext> taken) : device_(device), context_(std::move(taken)) {}
  ~ContextLease() {
    if (context_ != nullptr) cudaStreamSynchronize(context_->stream());
    device_.ReturnContext(std::move(context_));
  }
  // Gives back nothing: all its memory is free again.
  void Destroy() { context_.reset(); }
  ContextLease(const ContextLease&) = delete;
  ContextLease& operator=(const ContextLease&) = delete;
  ExecutionContext& context() const { return *context_; }

 private:
  Device& device_;
  std::unique_ptr<ExecutionContext> context_;
};

}  // namespace rnnserve::cuda
