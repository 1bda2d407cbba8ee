// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/cuda/error.h"
#include "engine/cuda/execution_context.h"
#include "engine/cuda/slot_pool.h"

namespace rnnserve::cuda {
namespace {

// One of each for a copy in, a computation and a copy out to overlap.
constexpr int kWorkersWanted = 3;
// A block's buffers stay below this, or below a sixteenth of the budget.
constexpr int64_t kBlockBytes = int64_t{192} << 20;
// Of x and y: 4 MiB of each are what helpers copy (CopyPool). On an H100, N = 4096, H = 512: 2.4 ms with groups of 2
// MiB, 1.4 with 8, 1.8 uncut.
constexpr int64_t kGroupBytes = int64_t{8} << 20;
constexpr size_t kSlotAlignment = 256;

// What cuDNN 9 and the intermediate form of our kernels need.
constexpr int kLeastCapability = 75;

size_t CopyHelpers() {
  const char* helpers = std::getenv("RNNSERVE_CUDA_COPY_HELPERS");
  return helpers != nullptr ? static_cast<size_t>(std::max(0, std::atoi(helpers))) : CopyPool::DefaultHelpers();
}

std::string Version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

[[noreturn]] void Unavailable(const std::string& text) { throw Error(RNNSERVE_UNAVAILABLE, text); }

// The devices of this machine; the two usual reasons to have none in the reader's words rather than in CUDA's.
int CountDevices(int driver, int runtime) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  const std::string needs = "needs one for CUDA " + Version(runtime) + " (580 or later)";
  if (found == cudaErrorInsufficientDriver && driver == 0) {
    Unavailable("no NVIDIA driver is installed here (there is no libcuda.so.1); this library " + needs);
  }
  if (found == cudaErrorInsufficientDriver) {
    Unavailable("the NVIDIA driver here is for CUDA " + Version(driver) + ", and this library " + needs);
  }
  if (found == cudaErrorNoDevice) {
    Unavailable(
        "the NVIDIA driver finds no device that this process may use (see nvidia-smi and CUDA_VISIBLE_DEVICES)");
  }
  Check(found, "looking for a CUDA device");
  return count;
}

}  // namespace

DeviceBuffer::DeviceBuffer(Device& device, size_t bytes, Room room) : device_(&device), bytes_(bytes) {
  if (bytes == 0) return;
  device.Reserve(bytes, room);
  cudaError_t error = cudaMalloc(&data_, bytes);
  if (error == cudaErrorMemoryAllocation && room == Room::kMake) {  // others hold it, or it is in pieces
    cudaGetLastError();
    device.MakeRoom();
    error = cudaMalloc(&data_, bytes);
  }
  if (error != cudaSuccess) {
    device.Release(bytes);
    Check(error, ("allocating " + std::to_string(bytes) + " bytes of device memory").c_str());
  }
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  cudaFree(data_);
  device_->Release(bytes_);
}

void CopyToDevice(void* to, const void* from, size_t bytes, const char* what) {
  Check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), what);
  Check(cudaStreamSynchronize(cudaStreamLegacy), what);
}

PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes > 0) Check(cudaMallocHost(&data_, bytes), "allocating page-locked memory");
}
PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

Device::Device(const rnnserve_engine_options& options) : ordinal_(options.device), copy_pool_(CopyHelpers()) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const int count = CountDevices(driver, runtime);
  if (ordinal_ < 0 || ordinal_ >= count) {
    throw Error(RNNSERVE_UNAVAILABLE, "CUDA device " + std::to_string(ordinal_) +
                                          " was asked for, but this machine has " + std::to_string(count) +
                                          "; name one from 0 up");
  }
  Check(cudaSetDevice(ordinal_), "selecting the CUDA device");
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, ordinal_), "reading the CUDA device's properties");
  const std::string capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  capability_ = properties.major * 10 + properties.minor;
  if (capability_ < kLeastCapability) {
    Unavailable(std::string(properties.name) + " has compute capability " + capability +
                ", and this library needs 7.5");
  }
  resident_limits_ = {properties.multiProcessorCount,
                      properties.cooperativeLaunch != 0 ? properties.sharedMemPerBlockOptin : 0};
  size_t free_bytes = 0, total_bytes = 0;
  Check(cudaMemGetInfo(&free_bytes, &total_bytes), "reading the CUDA device's memory");
  name_ = properties.name;
  total_ = static_cast<int64_t>(total_bytes);
  limit_ = options.memory_limit_bytes > 0 ? std::min(options.memory_limit_bytes, total_)
                                          : static_cast<int64_t>(free_bytes / 10 * 9);
  const size_t cudnn = cudnnGetVersion();
  versions_ = "compute capability " + capability + ", CUDA driver " + Version(driver) + ", runtime " +
              Version(runtime) + ", cuDNN " + std::to_string(cudnn / 10000) + "." + std::to_string(cudnn / 100 % 100) +
              "." + std::to_string(cudnn % 100);
  if (const char* path = std::getenv("RNNSERVE_CUDA_PATH")) forced_path_ = path;
  const char* block_bytes = std::getenv("RNNSERVE_CUDA_BLOCK_BYTES");
  block_bytes_ = block_bytes != nullptr ? std::atoll(block_bytes) : std::min(kBlockBytes, limit_ / 16);
  const char* group_bytes = std::getenv("RNNSERVE_CUDA_GROUP_BYTES");
  group_bytes_ = group_bytes != nullptr ? std::max(1LL, std::atoll(group_bytes)) : kGroupBytes;
  contexts_.reserve(kWorkersWanted);  // ReturnContext never allocates
}

Device::~Device() {
  cudaSetDevice(ordinal_);  // the closing thread may never have been here
}

void Device::Enter() const {
  if (!healthy_.load()) {
    std::lock_guard lock(mutex_);
    throw Error(RNNSERVE_UNAVAILABLE, "the CUDA device is out of service: " + failure_);
  }
  Check(cudaSetDevice(ordinal_), "selecting the CUDA device");
}

bool Device::TryReserve(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  int64_t held = in_use_.load();
  do {
    if (wanted > limit_ - held) return false;
  } while (!in_use_.compare_exchange_weak(held, held + wanted));
  return true;
}

void Device::Reserve(size_t bytes, DeviceBuffer::Room room) {
  if (TryReserve(bytes)) return;
  if (room == DeviceBuffer::Room::kMake) {
    MakeRoom();
    if (TryReserve(bytes)) return;
  }
  throw Error(RNNSERVE_RESOURCE_EXHAUSTED,
              "needs " + std::to_string(bytes) + " more bytes of device memory, but " + std::to_string(in_use_.load()) +
                  " of the engine's " + std::to_string(limit_) +
                  " are taken; retry later, use fewer or smaller models, or raise the engine's memory limit");
}

void Device::Release(size_t bytes) { in_use_ -= static_cast<int64_t>(bytes); }

void Device::MakeRoom() {
  std::lock_guard lock(mutex_);
  for (const auto& context : contexts_) context->DropBuffers();
  for (const auto& [bytes, pool] : pools_) pool->Trim();
}

// Sizes are rounded, so that cells of about one width share a pool.
SlotPool& Device::Slots(size_t slot_bytes) {
  const size_t rounded = (slot_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  std::lock_guard lock(mutex_);
  auto& pool = pools_[rounded];
  if (pool == nullptr) pool = std::make_unique<SlotPool>(*this, rounded);
  return *pool;
}

void Device::TakeSpent(size_t most, std::vector<SpentSlot>& to) {
  std::lock_guard lock(mutex_);
  for (const auto& [bytes, pool] : pools_) {
    if (to.size() >= most) return;
    pool->TakeSpent(most - to.size(), to);
  }
}

std::unique_ptr<ExecutionContext> Device::TakeContext() {
  std::unique_lock lock(mutex_);
  lane_returned_.wait(lock, [this] { return lanes_taken_ < kWorkersWanted; });
  return TakeLane(lock);
}

std::unique_ptr<ExecutionContext> Device::TryTakeContext() {
  std::unique_lock lock(mutex_);
  if (lanes_taken_ + 1 >= kWorkersWanted) return nullptr;
  if (contexts_.empty() && in_use_.load() > limit_ / 2) return nullptr;
  return TakeLane(lock);
}

std::unique_ptr<ExecutionContext> Device::TakeLane(std::unique_lock<std::mutex>& lock) {
  ++lanes_taken_;
  if (!contexts_.empty()) {
    std::unique_ptr<ExecutionContext> context = std::move(contexts_.back());
    contexts_.pop_back();
    return context;
  }
  lock.unlock();
  try {
    return std::make_unique<ExecutionContext>(*this);
  } catch (...) {
    lock.lock();
    --lanes_taken_;
    lane_returned_.notify_one();
    throw;
  }
}

void Device::ReturnContext(std::unique_ptr<ExecutionContext> context) {
  std::lock_guard lock(mutex_);
  if (context != nullptr) contexts_.push_back(std::move(context));
  --lanes_taken_;
  lane_returned_.notify_one();
}

void Device::Fail(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (healthy_.exchange(false)) failure_ = reason;
}

void Device::Describe(rnnserve_device_info& info) const {
  std::lock_guard lock(mutex_);
  info = {};
  std::snprintf(info.name, sizeof info.name, "%s", name_.c_str());
  std::snprintf(info.versions, sizeof info.versions, "%s", versions_.c_str());
  std::snprintf(info.failure, sizeof info.failure, "%s", failure_.c_str());
  info.memory_total_bytes = total_;
  info.memory_limit_bytes = limit_;
  info.memory_in_use_bytes = in_use_.load();
  info.healthy = healthy_.load() ? 1 : 0;
  info.workers_wanted = kWorkersWanted;
}

}  // namespace rnnserve::cuda
