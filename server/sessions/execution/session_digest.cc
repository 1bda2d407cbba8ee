// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace rnnserve {
namespace {

class Hasher {
 public:
  // What is small together is collected: xxhash takes bytes in one piece for less.
  void Bytes(const void* data, size_t size) {
    if (size > kCollected - collected_) {
      Flush();
      if (size > kCollected) {
        XXH3_128bits_update(&state_, data, size);
        return;
      }
    }
    if (size > 0) std::memcpy(bytes_ + collected_, data, size);
    collected_ += size;
  }
  // One after the other.
  template <typename First, typename Second, typename... More>
  void Add(const First& first, const Second& second, const More&... more) {
    Add(first);
    Add(second);
    (Add(more), ...);
  }
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Add(T value) { Bytes(&value, sizeof value); }
  void Add(std::string_view text) {
    Add(text.size());
    Bytes(text.data(), text.size());
  }
  void Add(const std::string& text) { Add(std::string_view(text)); }
  void Add(const OptionalOptions& options) {
    Add(options.clip_cell_input, options.empty_row_state, options.deterministic, options.allow_reduced_precision,
        options.weights);
  }
  void Add(absl::Duration duration) { Add(absl::ToInt64Nanoseconds(duration)); }
  void Add(const TensorView& tensor) {
    Add(tensor.type);
    Add(tensor.shape);
    Add(std::string_view(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()));
  }
  void Add(const NamedTensor& tensor) { Add(tensor.name, tensor.tensor); }
  template <typename T>
  void Add(const std::vector<T>& list) {
    Add(list.size());
    for (const T& one : list) Add(one);
  }
  void Add(const Shape& shape) {
    Add(shape.size());
    for (const int64_t axis : shape) Add(axis);
  }
  template <typename T>
  void Add(const std::optional<T>& one) {
    Add(one.has_value());
    if (one) Add(*one);
  }
  template <typename... Ts>
  void Add(const std::variant<Ts...>& one) {
    Add(one.index());
    std::visit([&](const auto& value) { Add(value); }, one);
  }
  void Add(const ModelName& model) { Add(model.name, model.version); }
  void Add(const ModelFingerprint& fingerprint) { Add(fingerprint.hex); }
  void Add(const OperatorDef& op) {
    Add(op.domain, op.op_type, op.version, op.opset);
    for (const auto& [name, value] : op.attributes) Add(name, value);
  }
  // As they came.
  void Add(const ChunkOp& op) { Add(op.inputs, op.outputs); }
  void Add(const ResetOp& op) { Add(op.state); }
  void Add(const SetStateOp& op) { Add(op.state); }
  void Add(const SelectRowsOp& op) { Add(op.rows); }
  void Add(const RewindOp& op) { Add(op.checkpoint); }
  void Add(const CloseOp& op) { Add(op.return_state); }

  // As they are meant.
  void AddPlan(const RunPlan& plan) {
    Add(plan.x);
    Add(plan.data);
    Bytes(plan.lengths.data(), plan.lengths.size() * sizeof(int64_t));  // as many as rows
    Add(plan.outputs.size());
    for (const OutputPlan& output : plan.outputs) Add(output.name);
  }
  void AddState(const std::vector<NamedTensor>& state) {
    std::vector<const NamedTensor*> in_order;
    for (const NamedTensor& tensor : state) in_order.push_back(&tensor);
    std::ranges::sort(in_order, {}, &NamedTensor::name);
    Add(in_order.size());
    for (const NamedTensor* tensor : in_order) Add(*tensor);
  }

  Digest Finish() {
    if (!is_begun_) {
      const XXH128_hash_t hash = XXH3_128bits(bytes_, collected_);
      return {hash.high64, hash.low64};
    }
    Flush();
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.high64, hash.low64};
  }

 private:
  static constexpr size_t kCollected = 1024;

  void Flush() {
    if (!std::exchange(is_begun_, true)) XXH3_128bits_reset(&state_);
    XXH3_128bits_update(&state_, bytes_, collected_);
    collected_ = 0;
  }

  bool is_begun_ = false;  // state_ has what came before bytes_
  XXH3_state_t state_;
  unsigned char bytes_[kCollected];
  size_t collected_ = 0;
};

bool IsZero(const std::vector<NamedTensor>& state) {
  return std::ranges::all_of(state, [](const NamedTensor& tensor) {
    return std::ranges::all_of(tensor.tensor.data, [](std::byte byte) { return byte == std::byte{0}; });
  });
}

}  // namespace

Digest DigestOf(const OperationKind& operation, const RunPlan* plan) {
  Hasher hasher;
  hasher.Add(operation.index());
  if (plan != nullptr) {
    hasher.AddPlan(*plan);
  } else if (const auto* set = std::get_if<SetStateOp>(&operation)) {
    hasher.AddState(set->state);
  } else if (const auto* reset = std::get_if<ResetOp>(&operation)) {
    // Zeros are what a Reset without a state sets.
    if (reset->state && !IsZero(*reset->state)) hasher.AddState(*reset->state);
  } else {
    hasher.Add(operation);
  }
  return hasher.Finish();
}

Digest DigestOfFaulty(const OperationKind& operation) {
  Hasher hasher;
  hasher.Add(std::string_view("faulty"), operation);
  return hasher.Finish();
}

Digest DigestOf(const OpenCall& call) {
  Hasher hasher;
  hasher.Add(std::string_view("open"), call.name, call.attach, call.must_exist, call.target, call.weights, call.options,
             call.engine, call.rows, call.state, call.state_of_session, call.outputs, call.idle_timeout,
             call.max_in_flight, call.window_operations, call.window_bytes, call.durability, call.state_type);
  return hasher.Finish();
}

Digest DigestOf(const ForkCall& call) {
  Hasher hasher;
  hasher.Add(std::string_view("fork"), call.session, call.after_number, call.count, call.names);
  return hasher.Finish();
}

}  // namespace rnnserve
