// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/program.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "engine/cuda/element.h"
#include "engine/cuda/error.h"
#include "engine/cuda/predicate.h"

namespace rnnserve::cuda {
namespace {

bool AllZero(const void* values, int64_t count, size_t element_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(values);
  return std::all_of(bytes, bytes + static_cast<size_t>(count) * element_bytes, [](unsigned char b) { return b == 0; });
}

// P = 0 is P absent, which more ways can run.
rnnserve_cell Simplified(rnnserve_cell cell, const rnnserve_weights& weights) {
  const size_t element = ElementBytes(ComputeType(cell.data_type));
  if (cell.has_peephole && AllZero(weights.p, 3 * cell.hidden_size, element)) cell.has_peephole = 0;
  return cell;
}

template <typename From, typename To>
void ConvertRun(const void* from, void* to, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    From source;
    To target;
    std::memcpy(&source, static_cast<const std::byte*>(from) + k * sizeof source, sizeof source);
    if constexpr (std::is_same_v<From, float> || std::is_same_v<From, double>) {
      Narrow(source, target);
    } else {
      target = Widen(source);
    }
    std::memcpy(static_cast<std::byte*>(to) + k * sizeof target, &target, sizeof target);
  }
}

// Between a 16-bit type and float, either way, or a copy. Nothing here needs alignment.
void ConvertElements(int from, const void* source, int to, void* target, size_t count) {
  if (from == to) {
    std::memcpy(target, source, count * ElementBytes(from));
  } else if (from == RNNSERVE_FLOAT16) {
    ConvertRun<Half, float>(source, target, count);
  } else if (from == RNNSERVE_BFLOAT16) {
    ConvertRun<BFloat16, float>(source, target, count);
  } else if (to == RNNSERVE_FLOAT16) {
    ConvertRun<float, Half>(source, target, count);
  } else {
    ConvertRun<float, BFloat16>(source, target, count);
  }
}

// Devices that compute with bfloat16.
constexpr int kBFloat16Capability = 80;

// Whether a library has only said no: another way may do. Its refusals come as INTERNAL.
bool IsRefusal(const Error& error) { return !error.sticky() && error.code() == RNNSERVE_INTERNAL; }

int PowerOfTwo(int value) { return std::bit_width(static_cast<unsigned>(value - 1)); }

}  // namespace

void Program::CheckSupported(const rnnserve_cell& cell) {
  const std::string refusal = EngineRefusal(cell);
  if (!refusal.empty()) throw Error(RNNSERVE_UNIMPLEMENTED, refusal);
}

Program::Program(Device& device, const rnnserve_cell& cell, const rnnserve_weights& weights)
    : device_(device), cell_(Simplified(cell, weights)), run_type_(compute_type()) {
  CheckSupported(cell);
  const std::string refusal = CudnnRefusal(cell_);
  const std::string& forced = device.forced_path();
  if (forced == "cudnn" && !refusal.empty())
    throw Error(RNNSERVE_UNIMPLEMENTED, "RNNSERVE_CUDA_PATH=cudnn: " + refusal);
  if (refusal.empty() && forced != "general" && forced != "resident") {
    const bool is_native = cell_.data_type != RNNSERVE_BFLOAT16 || device.capability() >= kBFloat16Capability;
    if (cell_.allow_reduced_precision && is_native) run_type_ = cell_.data_type;
    const ContextLease lease(device);
    try {
      cudnn_ = std::make_unique<CudnnPath>(device, lease.context(), cell_, weights, run_type_);
    } catch (const Error& refused) {
      if (!IsRefusal(refused) || forced == "cudnn") throw;
      run_type_ = compute_type();
    }
  }
  // The general path computes in the compute type only; where both can run, trials decide.
  if (cudnn_ == nullptr || (forced.empty() && run_type_ == compute_type())) {
    general_ = std::make_unique<GeneralPath>(device, cell_, weights);
  }
}

int64_t Program::bytes() const { return (general_ ? general_->bytes() : 0) + (cudnn_ ? cudnn_->bytes() : 0); }

void Program::Import(StateHandle& state, int type, const void* h, const void* c) const {
  const auto hidden = static_cast<size_t>(cell_.hidden_size);
  const size_t half = hidden * ElementBytes(compute_type());
  state.Wipe();
  if (h == nullptr && (c == nullptr || !lstm())) {
    state.where = StateHandle::Where::kZero;
    return;
  }
  state.host.assign(state_bytes(), std::byte{0});
  if (h != nullptr) ConvertElements(type, h, compute_type(), state.host.data(), hidden);
  if (c != nullptr && lstm()) ConvertElements(type, c, compute_type(), state.host.data() + half, hidden);
  state.where = StateHandle::Where::kHost;
}

void Program::Export(const StateHandle& state, int type, void* h, void* c) const {
  const auto hidden = static_cast<size_t>(cell_.hidden_size);
  const size_t half = hidden * ElementBytes(compute_type());
  std::vector<std::byte> copy;
  const std::byte* at = state.host.data();
  if (state.where == StateHandle::Where::kZero) {
    copy.assign(state_bytes(), std::byte{0});
    at = copy.data();
  } else if (state.where == StateHandle::Where::kDevice) {
    copy.resize(state_bytes());
    Check(cudaMemcpy(copy.data(), state.slot(), state_bytes(), cudaMemcpyDeviceToHost),
          "copying a state from the device");
    at = copy.data();
  }
  if (h != nullptr) ConvertElements(compute_type(), at, type, h, hidden);
  if (c != nullptr && lstm()) ConvertElements(compute_type(), at + half, type, c, hidden);
}

bool Program::MayRun(Way way, const Block& block) const {
  switch (way) {
    case Way::kGeneral:
      return general_ != nullptr && (device_.forced_path() != "resident" || !MayRun(Way::kResident, block));
    case Way::kResident:
      return general_ != nullptr && device_.forced_path() != "general" &&
             general_->MayRun(GeneralPath::Recurrence::kResident, block);
    case Way::kStandard:
      return cudnn_ != nullptr && cudnn_->MayRun(CudnnAlgorithm::kStandard, block);
    default:
      return cudnn_ != nullptr && cudnn_->MayRun(CudnnAlgorithm::kSmallH, block);
  }
}

void Program::Run(Way way, const Work& work) const {
  if (way == Way::kGeneral) return general_->Run(GeneralPath::Recurrence::kSteps, work);
  if (way == Way::kResident) return general_->Run(GeneralPath::Recurrence::kResident, work);
  cudnn_->Run(way == Way::kSmallH ? CudnnAlgorithm::kSmallH : CudnnAlgorithm::kStandard, work);
}

Program::Way Program::Choose(const Work& work, const ShapeKey& key) const {
  constexpr Way kWays[] = {Way::kStandard, Way::kSmallH, Way::kResident, Way::kGeneral};
  std::vector<Way> usable;
  for (const Way way : kWays) {
    if (MayRun(way, work.block)) usable.push_back(way);
  }
  Way best = usable.front();
  if (usable.size() == 1) return best;
  float best_ms = std::numeric_limits<float>::infinity();
  bool is_short_of_memory = false;
  const ExecutionContext& context = work.context;
  for (const Way way : usable) {
    try {
      Run(way, work);  // loads kernels, and is refused here if at all
      context.Synchronize();
      for (int round = 0; round < 3; ++round) {
        Check(cudaEventRecord(context.begin(), context.stream()), "cudaEventRecord");
        Run(way, work);
        Check(cudaEventRecord(context.end(), context.stream()), "cudaEventRecord");
        context.Synchronize();
        float ms = 0;
        Check(cudaEventElapsedTime(&ms, context.begin(), context.end()), "cudaEventElapsedTime");
        if (ms < best_ms) {
          best_ms = ms;
          best = way;
        }
      }
    } catch (const Error& refused) {
      if (refused.sticky()) throw;
      if (refused.is_short_of_memory()) {  // its workspace
        is_short_of_memory = true;
      } else if (!IsRefusal(refused)) {
        throw;
      }
    }
  }
  if (is_short_of_memory) return best;
  std::lock_guard lock(mutex_);
  return ways_.emplace(key, best).first->second;
}

// The next way for what `refused` won't run.
std::optional<Program::Way> Program::After(Way refused) const {
  if (refused == Way::kSmallH) return Way::kStandard;
  if (refused == Way::kResident) return Way::kGeneral;
  if (refused == Way::kStandard && general_ != nullptr) return Way::kGeneral;
  return std::nullopt;
}

void Program::Compute(const Work& work) const {
  const ShapeKey key{PowerOfTwo(work.block.active), PowerOfTwo(work.block.steps), work.block.uniform};
  std::optional<Way> way;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = ways_.find(key); found != ways_.end()) way = found->second;
  }
  if (!way) way = Choose(work, key);
  while (true) {
    try {
      return Run(*way, work);
    } catch (const Error& refused) {  // the trial's shape was accepted, this one of the same bucket isn't
      const std::optional<Way> next = After(*way);
      if (!(IsRefusal(refused) || refused.is_short_of_memory()) || !next) throw;
      way = next;
      if (refused.is_short_of_memory()) continue;  // this time
    }
    std::lock_guard lock(mutex_);
    ways_[key] = *way;
  }
}

}  // namespace rnnserve::cuda
