// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/fake_cuda/fake_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace rnnserve::fake_cuda {
namespace {

// Of large buffers only the start: they are workspaces that no test reads.
void Spoil(void* memory, size_t bytes) { std::memset(memory, 0xff, std::min(bytes, size_t{1} << 20)); }

std::string Trigger() {
  const char* path = std::getenv("FAKE_CUDA_TRIGGER");
  return path == nullptr ? "" : path;
}

}  // namespace

FakeDevice::FakeDevice() : trigger_(Trigger()) {}

FakeDevice& FakeDevice::Get() {
  static auto* device = new FakeDevice;
  return *device;
}

void FakeDevice::SetFault(const std::string& fault) {
  std::lock_guard lock(mutex_);
  fault_ = fault;
}
bool FakeDevice::Has(const char* fault) const {
  const bool is_triggered =
      !trigger_.empty() && std::strcmp(fault, "illegal_address") == 0 && access(trigger_.c_str(), F_OK) == 0;
  std::lock_guard lock(mutex_);
  return is_triggered || fault_ == fault;
}

cudaError_t FakeDevice::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}
void FakeDevice::Lose(cudaError_t error) {
  std::lock_guard lock(mutex_);
  lost_ = error;
}
cudaError_t FakeDevice::Fail(cudaError_t error) {
  std::lock_guard lock(mutex_);
  return last_ = error;
}
cudaError_t FakeDevice::TakeLastError() {
  std::lock_guard lock(mutex_);
  if (lost_ != cudaSuccess) return lost_;
  const cudaError_t last = last_;
  last_ = cudaSuccess;
  return last;
}

void* FakeDevice::Allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(bytes) > kTotalBytes - allocated_) return nullptr;
  void* memory = nullptr;  // of just this size, for the address sanitizer
  if (posix_memalign(&memory, 256, bytes) != 0) return nullptr;
  Spoil(memory, bytes);
  memory_[memory] = bytes;
  allocated_ += static_cast<int64_t>(bytes);
  return memory;
}
void FakeDevice::Free(void* memory) {
  std::lock_guard lock(mutex_);
  const auto found = memory_.find(memory);
  if (found == memory_.end()) std::abort();
  allocated_ -= static_cast<int64_t>(found->second);
  Spoil(memory, found->second);
  std::free(memory);
  memory_.erase(found);
}
int64_t FakeDevice::allocated() const {
  std::lock_guard lock(mutex_);
  return allocated_;
}

bool FakeDevice::Holds(std::string_view bytes) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(memory_, [&](const auto& block) {
    return std::string_view(static_cast<const char*>(block.first), block.second).find(bytes) != std::string_view::npos;
  });
}

void FakeDevice::Count(const std::string& what, float milliseconds) {
  std::lock_guard lock(mutex_);
  ++counts_[what];
  clock_ += milliseconds;
}
int64_t FakeDevice::count(const std::string& what) const {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(what);
  return found == counts_.end() ? 0 : found->second;
}
float FakeDevice::clock() const {
  std::lock_guard lock(mutex_);
  return clock_;
}
void FakeDevice::Forget() {
  std::lock_guard lock(mutex_);
  fault_.clear();
  lost_ = last_ = cudaSuccess;
  counts_.clear();
}

void FakeDevice::StreamWaits() {
  std::lock_guard lock(mutex_);
  if (++waiting_streams_ > 1) ++counts_["overlap"];
}
void FakeDevice::StreamRuns() {
  std::lock_guard lock(mutex_);
  --waiting_streams_;
}

}  // namespace rnnserve::fake_cuda

void CUstream_st::Push(std::function<void()> item) {
  if (work_.empty()) rnnserve::fake_cuda::FakeDevice::Get().StreamWaits();
  work_.push_back(std::move(item));
}
std::vector<std::function<void()>> CUstream_st::TakeAll() {
  if (!work_.empty()) rnnserve::fake_cuda::FakeDevice::Get().StreamRuns();
  return std::exchange(work_, {});
}

// For the tests, past the ABI.
using rnnserve::fake_cuda::FakeDevice;
extern "C" {
__attribute__((visibility("default"))) void fake_cuda_set(const char* fault) { FakeDevice::Get().SetFault(fault); }
__attribute__((visibility("default"))) void fake_cuda_forget() { FakeDevice::Get().Forget(); }
__attribute__((visibility("default"))) int64_t fake_cuda_count(const char* what) {
  return FakeDevice::Get().count(what);
}
__attribute__((visibility("default"))) bool fake_cuda_holds(const std::byte* bytes, size_t count) {
  return FakeDevice::Get().Holds({reinterpret_cast<const char*>(bytes), count});
}
__attribute__((visibility("default"))) int64_t fake_cuda_allocated() { return FakeDevice::Get().allocated(); }
}
