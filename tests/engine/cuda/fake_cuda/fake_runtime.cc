// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/engine/cuda/fake_cuda/fake_device.h"

using rnnserve::fake_cuda::FakeDevice;
using rnnserve::fake_cuda::kTotalBytes;

struct CUevent_st {
  float at = 0;
};

namespace {

FakeDevice& Device() { return FakeDevice::Get(); }

cudaError_t Run(CUstream_st& stream) {
  const auto work = stream.TakeAll();
  if (Device().Has("illegal_address") && !work.empty()) Device().Lose(cudaErrorIllegalAddress);
  if (Device().lost() != cudaSuccess) return Device().lost();
  for (const auto& item : work) item();
  return cudaSuccess;
}

// What cudaMemcpy has taken from pageable memory and not yet brought to the device.
struct Legacy {
  std::mutex mutex;
  CUstream_st stream;
};
Legacy& LegacyStream() {
  static auto* legacy = new Legacy;
  return *legacy;
}

cudaError_t Enqueue(cudaStream_t stream, std::function<void()> item) {
  if (Device().lost() != cudaSuccess) return Device().lost();
  stream->Push(std::move(item));
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  *version = Device().Has("no_driver") ? 0 : Device().Has("old_driver") ? 12040 : 13000;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  *count = 0;
  if (Device().Has("no_driver") || Device().Has("old_driver")) return Device().Fail(cudaErrorInsufficientDriver);
  if (Device().Has("no_device")) return Device().Fail(cudaErrorNoDevice);
  *count = 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaSetDevice(int) { return Device().lost(); }
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::snprintf(properties->name, sizeof properties->name, "Fake GPU");
  properties->major = Device().Has("old_device") || Device().Has("turing") ? 7 : 9;
  properties->minor = Device().Has("turing") ? 5 : 0;
  properties->multiProcessorCount = 4;
  properties->cooperativeLaunch = Device().Has("no_cooperative_launch") ? 0 : 1;
  properties->sharedMemPerBlockOptin = size_t{227} << 10;
  return Device().lost();
}
cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = kTotalBytes;
  *free_bytes = static_cast<size_t>(kTotalBytes - Device().allocated());
  return Device().lost();
}
cudaError_t CUDARTAPI cudaGetLastError() { return Device().TakeLastError(); }
cudaError_t CUDARTAPI cudaDeviceSynchronize() { return Device().lost(); }
const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress           ? "cudaErrorIllegalAddress"
         : error == cudaErrorMemoryAllocation       ? "cudaErrorMemoryAllocation"
         : error == cudaErrorNoKernelImageForDevice ? "cudaErrorNoKernelImageForDevice"
                                                    : "cudaError";
}
const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "as the fake says"; }

cudaError_t CUDARTAPI cudaMalloc(void** memory, size_t bytes) {
  if (Device().lost() != cudaSuccess) return Device().lost();
  *memory = Device().Has("no_memory") ? nullptr : Device().Allocate(bytes);
  return *memory == nullptr ? Device().Fail(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t CUDARTAPI cudaFree(void* memory) {
  Device().Free(memory);
  return Device().lost();
}
cudaError_t CUDARTAPI cudaMallocHost(void** memory, size_t bytes) {
  if (Device().lost() != cudaSuccess) return Device().lost();
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFreeHost(void* memory) {
  std::free(memory);
  return Device().lost();
}
cudaError_t CUDARTAPI cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (Device().lost() != cudaSuccess) return Device().lost();
  if (kind == cudaMemcpyDeviceToHost) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  }
  const auto* bytes_from = static_cast<const char*>(from);
  std::lock_guard lock(LegacyStream().mutex);
  return Enqueue(&LegacyStream().stream, [to, staged = std::vector<char>(bytes_from, bytes_from + bytes)] {
    std::memcpy(to, staged.data(), staged.size());
  });
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (stream == cudaStreamLegacy) {
    std::lock_guard lock(LegacyStream().mutex);
    return Enqueue(&LegacyStream().stream, [=] { std::memset(to, value, bytes); });
  }
  return Enqueue(stream, [=] { std::memset(to, value, bytes); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  *stream = new CUstream_st;
  Device().Count("stream");
  return Device().lost();
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return Device().lost();
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  if (stream != cudaStreamLegacy) return Run(*stream);
  std::lock_guard lock(LegacyStream().mutex);
  return Run(LegacyStream().stream);
}
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return Device().lost();
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return Device().lost();
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Enqueue(stream, [=] { event->at = Device().clock(); });
}
cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = end->at - begin->at;
  return Device().lost();
}

}  // extern "C"
