// SPDX-License-Identifier: Apache-2.0
// MakeSequences: where layouts, dialects, directions and lengths end. In elements, with row n, direction d, step t:
//
//                 X                Y                        states
//   layout 0      (t*N + n)*I      ((t*D + d)*N + n)*H      (d*N + n)*H
//   layout 1      (n*T + t)*I      ((n*T + t)*D + d)*H      (n*D + d)*H
//   OpenVINO      (n*T + t)*I      ((n*D + d)*T + t)*H      (n*D + d)*H
#include <cstring>

#include "engine/op/op_spec.h"
#include "engine/op/signature.h"

namespace rnnserve {
namespace {

// Bytes from the tensor's start to (n, d, t = 0), and from one t to the next.
struct Walk {
  std::ptrdiff_t row = 0;
  std::ptrdiff_t direction = 0;
  std::ptrdiff_t step = 0;

  std::ptrdiff_t Offset(int64_t n, int64_t d) const { return n * row + d * direction; }
};

struct Walks {
  Walk x, y, state;
};

Walks WalksOf(const OpSpec& spec, const RunPlan& plan) {
  const auto element = static_cast<int64_t>(ByteSize(spec.data_type));
  const int64_t i = spec.input_size * element;
  const int64_t h = spec.hidden_size * element;
  const int64_t t = plan.steps, n = plan.rows, d = spec.directions();
  if (spec.dialect == Dialect::kOpenVino) {
    return {.x = {t * i, 0, i}, .y = {d * t * h, t * h, h}, .state = {d * h, h, 0}};
  }
  if (spec.layout == 1) return {.x = {t * i, 0, i}, .y = {t * d * h, h, d * h}, .state = {d * h, h, 0}};
  return {.x = {i, 0, n * i}, .y = {h, n * h, d * n * h}, .state = {h, n * h, 0}};
}

struct Targets {
  std::byte* y = nullptr;
  std::byte* final_h = nullptr;
  std::byte* final_c = nullptr;
};

Targets TargetsOf(const OpSpec& spec, const RunPlan& plan, std::span<std::byte* const> buffers) {
  const TensorNames names = NamesOf(spec.dialect, spec.kind);
  Targets targets;
  for (size_t k = 0; k < plan.outputs.size(); ++k) {
    const std::string& name = plan.outputs[k].name;
    (name == names.y ? targets.y : name == names.final_h ? targets.final_h : targets.final_c) = buffers[k];
  }
  return targets;
}

template <typename Byte>
Byte* At(Byte* base, std::ptrdiff_t offset) {
  return base == nullptr ? nullptr : base + offset;
}

void WriteEmptyRow(const OpSpec& spec, const RunPlan& plan, const Sequence& sequence) {
  if (plan.empty_row_state == EmptyRowState::kZeros) return;
  const size_t bytes = static_cast<size_t>(spec.hidden_size) * ByteSize(spec.data_type);
  if (sequence.final_h && sequence.initial_h) std::memcpy(sequence.final_h, sequence.initial_h, bytes);
  if (sequence.final_c && sequence.initial_c) std::memcpy(sequence.final_c, sequence.initial_c, bytes);
}

}  // namespace

std::vector<Sequence> MakeSequences(const OpSpec& spec, const RunPlan& plan, std::span<std::byte* const> buffers) {
  if (plan.rows == 0) return {};  // then nothing bounds T, and the strides could overflow
  const Walks walks = WalksOf(spec, plan);
  const Targets targets = TargetsOf(spec, plan, buffers);
  const std::byte* initial_h = plan.initial_h ? plan.initial_h->data.data() : nullptr;
  const std::byte* initial_c = plan.initial_c ? plan.initial_c->data.data() : nullptr;

  std::vector<Sequence> sequences;
  if (plan.steps > 0) sequences.reserve(static_cast<size_t>(plan.rows * spec.directions()));
  for (int64_t d = 0; d < spec.directions(); ++d) {
    const bool backward = spec.direction == Direction::kReverse || d == 1;
    for (int64_t n = 0; n < plan.rows; ++n) {
      Sequence sequence;
      sequence.direction = d;
      sequence.row = n;
      sequence.length = plan.lengths[static_cast<size_t>(n)];
      const std::ptrdiff_t state = walks.state.Offset(n, d);
      sequence.initial_h = At(initial_h, state);
      sequence.initial_c = At(initial_c, state);
      sequence.final_h = At(targets.final_h, state);
      sequence.final_c = At(targets.final_c, state);
      if (sequence.length == 0) {
        WriteEmptyRow(spec, plan, sequence);
        continue;
      }
      const int64_t first_step = backward ? sequence.length - 1 : 0;
      const int64_t sign = backward ? -1 : 1;
      sequence.x = At(plan.x.data.data(), walks.x.Offset(n, d) + first_step * walks.x.step);
      sequence.x_stride = sign * walks.x.step;
      if (targets.y != nullptr) {
        sequence.y = targets.y + walks.y.Offset(n, d) + first_step * walks.y.step;
        sequence.y_stride = sign * walks.y.step;
      }
      sequences.push_back(sequence);
    }
  }
  return sequences;
}

}  // namespace rnnserve
