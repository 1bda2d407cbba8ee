// SPDX-License-Identifier: Apache-2.0
// A CUDA device made of host code: as much of the runtime, cuBLASLt and cuDNN as the plugin calls, so that everything
// of it but the kernels' launches runs, and can fail, without a GPU. What the libraries do is written down from their
// documentation; only a device can say whether that is true.
//
// Strict where a device would be silent: work waits in its stream until the program synchronises, device memory starts
// as NaN, alignments that were promised are checked.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

struct CUstream_st {
  void Push(std::function<void()> item);
  std::vector<std::function<void()>> TakeAll();

 private:
  std::vector<std::function<void()>> work_;
};

namespace rnnserve::fake_cuda {

class FakeDevice {
 public:
  static FakeDevice& Get();

  // What goes wrong, as fake_cuda_set names it. "illegal_address" also once the file exists that FAKE_CUDA_TRIGGER
  // named at the first call: so a test can choose the moment from another process.
  void SetFault(const std::string& fault);
  bool Has(const char* fault) const;

  // The error that has ended the context, if any. All calls return it.
  cudaError_t lost() const;
  void Lose(cudaError_t error);
  // What cudaGetLastError returns next.
  cudaError_t Fail(cudaError_t error);
  cudaError_t TakeLastError();

  void* Allocate(size_t bytes);  // null: no memory left
  void Free(void* memory);
  int64_t allocated() const;
  // Whether these bytes lie somewhere in it.
  bool Holds(std::string_view bytes) const;

  // How often something was done, and how long the device has worked: scripted, so that trials always end alike.
  void Count(const std::string& what, float milliseconds = 0);
  int64_t count(const std::string& what) const;
  float clock() const;
  void Forget();
  // Streams whose work waits; "overlap" counts how often a second one began to.
  void StreamWaits();
  void StreamRuns();

 private:
  FakeDevice();

  const std::string trigger_;
  mutable std::mutex mutex_;
  std::string fault_;
  cudaError_t lost_ = cudaSuccess;
  cudaError_t last_ = cudaSuccess;
  std::map<void*, size_t> memory_;
  int64_t allocated_ = 0;
  std::map<std::string, int64_t> counts_;
  float clock_ = 0;
  int waiting_streams_ = 0;
};

constexpr int64_t kTotalBytes = int64_t{256} << 20;

}  // namespace rnnserve::fake_cuda
