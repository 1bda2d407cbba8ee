// SPDX-License-Identifier: Apache-2.0
// MakeSequences: where layouts, dialects, directions and lengths end. In elements, with row n, direction d, step t:
//
//                    X                Y                        states
//   layout 0         (t*N + n)*I      ((t*D + d)*N + n)*H      (d*N + n)*H
//   layout 1         (n*T + t)*I      ((n*T + t)*D + d)*H      (n*D + d)*H
//   OpenVINO         (n*T + t)*I      ((n*D + d)*T + t)*H      (n*D + d)*H
//   batch_first      (n*T + t)*I      ((n*T + t)*D + d)*H      the layer's own
//   between layers   (t*N + n)*I      ((t*N + n)*D + d)*H      with I = D*H
#include <cstring>

#include "engine/op/signature.h"
#include "engine/op/stack.h"

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

// One layer of a run.
struct LayerRun {
  const StackSpec& stack;
  const RunPlan& plan;
  size_t layer;

  const OpSpec& spec() const { return stack.layers[layer]; }
  bool first() const { return layer == 0; }
  bool last() const { return layer + 1 == stack.layers.size(); }
  bool in_pipeline() const { return stack.pipeline != nullptr; }
};

Walk WalkX(const LayerRun& run, int64_t t, int64_t n, int64_t i, bool rows_first) {
  if (run.in_pipeline()) return rows_first ? Walk{t * i, 0, i} : Walk{i, 0, n * i};
  if (run.first() && XBatchFirst(run.stack)) return {t * i, 0, i};
  return {i, 0, n * i};
}

Walk WalkY(const LayerRun& run, int64_t t, int64_t n, int64_t d, int64_t h) {
  if (!run.last() || run.in_pipeline()) return {d * h, h, n * d * h};
  if (run.spec().dialect == Dialect::kOpenVino) return {d * t * h, t * h, h};
  if (run.stack.batch_first || run.spec().layout == 1) return {t * d * h, h, d * h};
  return {h, n * h, d * n * h};
}

Walks WalksOf(const LayerRun& run, bool x_rows_first) {
  const OpSpec& spec = run.spec();
  const auto element = static_cast<int64_t>(ByteSize(spec.data_type));
  const int64_t i = spec.input_size * element;
  const int64_t h = spec.hidden_size * element;
  const int64_t t = run.plan.steps, n = run.plan.rows, d = spec.directions();
  const Walk state = spec.batch_first() ? Walk{d * h, h, 0} : Walk{h, n * h, 0};
  return {WalkX(run, t, n, i, x_rows_first), WalkY(run, t, n, d, h), state};
}

struct Targets {
  std::byte* y = nullptr;
  std::byte* final_h = nullptr;
  std::byte* final_c = nullptr;
};

// Where this layer's part of a state of all layers begins, in bytes.
std::ptrdiff_t PartOf(const LayerRun& run, OutputKind kind) {
  int64_t directions = 0;
  for (size_t k = 0; k < run.layer; ++k) {
    const OpSpec& spec = run.stack.layers[k];
    if (kind == OutputKind::kFinalH || spec.kind == CellKind::kLstm) directions += spec.directions();
  }
  return directions * run.plan.rows * run.spec().hidden_size * static_cast<int64_t>(ByteSize(run.spec().data_type));
}

Targets TargetsOf(const LayerRun& run, std::span<std::byte* const> buffers) {
  Targets targets;
  for (size_t k = 0; k < run.plan.outputs.size(); ++k) {
    const OutputPlan& output = run.plan.outputs[k];
    if (output.kind == OutputKind::kY) {
      if (run.last()) targets.y = buffers[k];
    } else if (!output.layer || *output.layer == run.layer) {
      const bool has_it = output.kind == OutputKind::kFinalH || run.spec().kind == CellKind::kLstm;
      if (!has_it) continue;
      std::byte*& target = output.kind == OutputKind::kFinalH ? targets.final_h : targets.final_c;
      target = buffers[k] + (output.layer ? 0 : PartOf(run, output.kind));
    }
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

LayerSequences MakeSequences(const StackSpec& stack, const RunPlan& plan, std::span<std::byte* const> buffers,
                             size_t layer, const Between& between) {
  if (plan.rows == 0) return {};  // then nothing bounds T, and the strides could overflow
  const LayerRun run = {stack, plan, layer};
  const OpSpec& spec = run.spec();
  const Walks walks = WalksOf(run, between.x_rows_first);
  const bool given = run.in_pipeline();
  Targets targets = given ? Targets{between.y, between.final_h, between.final_c} : TargetsOf(run, buffers);
  if (!run.last()) targets.y = between.y;
  const std::byte* x = run.first() && !given ? plan.x.data.data() : between.x;
  const InitialState initial = plan.initial.empty() ? InitialState() : plan.initial[layer];
  const std::byte* initial_h = initial.h ? initial.h->data.data() : nullptr;
  const std::byte* initial_c = initial.c ? initial.c->data.data() : nullptr;

  LayerSequences sequences;
  if (plan.steps > 0 || plan.list_empty_rows) sequences.reserve(static_cast<size_t>(plan.rows * spec.directions()));
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
        if (plan.list_empty_rows) {
          sequences.push_back(sequence);
        } else {
          WriteEmptyRow(spec, plan, sequence);
        }
        continue;
      }
      const int64_t first_step = backward ? sequence.length - 1 : 0;
      const int64_t sign = backward ? -1 : 1;
      sequence.x = At(x, walks.x.Offset(n, d) + first_step * walks.x.step);
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
