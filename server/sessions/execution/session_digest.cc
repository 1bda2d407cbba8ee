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

namespace rnnserve {
namespace {

class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }

  // Small ones are collected: xxhash takes bytes in one piece for less.
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
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Add(T value) { Bytes(&value, sizeof value); }
  void Add(std::string_view text) {
    Add(text.size());
    Bytes(text.data(), text.size());
  }
  void Add(const std::string& text) { Add(std::string_view(text)); }
  void Add(const OptionalOptions& options) {
    Add(options.clip_cell_input);
    Add(options.empty_row_state);
    Add(options.deterministic);
    Add(options.allow_reduced_precision);
    Add(options.weights);
  }
  void Add(absl::Duration duration) { Add(absl::ToInt64Nanoseconds(duration)); }
  void Add(const TensorView& tensor) {
    Add(tensor.type);
    Add(tensor.shape);
    Add(std::string_view(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()));
  }
  void Add(const NamedTensor& tensor) {
    Add(tensor.name);
    Add(tensor.tensor);
  }
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
  void Add(const ModelName& model) {
    Add(model.name);
    Add(model.version);
  }
  void Add(const ModelFingerprint& fingerprint) { Add(fingerprint.hex); }
  void Add(const OperatorDef& op) {
    Add(op.domain);
    Add(op.op_type);
    Add(op.version);
    Add(op.opset);
    for (const auto& [name, value] : op.attributes) {
      Add(name);
      Add(value);
    }
  }
  // As they came.
  void Add(const ChunkOp& op) {
    Add(op.inputs);
    Add(op.outputs);
  }
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
    Flush();
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.high64, hash.low64};
  }

 private:
  static constexpr size_t kCollected = 256;

  void Flush() {
    XXH3_128bits_update(&state_, bytes_, collected_);
    collected_ = 0;
  }

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
  hasher.Add(std::string_view("faulty"));
  hasher.Add(operation);
  return hasher.Finish();
}

Digest DigestOf(const OpenCall& call) {
  Hasher hasher;
  hasher.Add(std::string_view("open"));
  hasher.Add(call.name);
  hasher.Add(call.attach);
  hasher.Add(call.must_exist);
  hasher.Add(call.target);
  hasher.Add(call.weights);
  hasher.Add(call.options);
  hasher.Add(call.engine);
  hasher.Add(call.rows);
  hasher.Add(call.state);
  hasher.Add(call.state_of_session);
  hasher.Add(call.outputs);
  hasher.Add(call.idle_timeout);
  hasher.Add(call.max_in_flight);
  hasher.Add(call.window_operations);
  hasher.Add(call.window_bytes);
  hasher.Add(call.durability);
  hasher.Add(call.state_type);
  return hasher.Finish();
}

Digest DigestOf(const ForkCall& call) {
  Hasher hasher;
  hasher.Add(std::string_view("fork"));
  hasher.Add(call.session);
  hasher.Add(call.after_number);
  hasher.Add(call.count);
  hasher.Add(call.names);
  return hasher.Finish();
}

}  // namespace rnnserve
