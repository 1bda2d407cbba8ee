// SPDX-License-Identifier: Apache-2.0
// MakeSequences: where layouts, dialects, directions and lengths end. In elements, with row n, direction d, step t:
//
//                    X                Y                        states
//   layout 0         (t*N + n)*I      ((t*D + d)*N + n)*H      (d*N + n)*H
//   layout 1         (n*T + t)*I      ((n*T + t)*D + d)*H      (n*D + d)*H
//   OpenVINO         (n*T + t)*I      ((n*D + d)*T + t)*H      (n*D + d)*H
//   batch_first      (n*T + t)*I      ((n*T + t)*D + d)*H      the layer's own
//   between layers   (t*N + n)*I      ((t*N + n)*D + d)*H      with I = D*H
//
// An output by its file's name has the order that the file gives it, D being that of all layers it is of.
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

Walk WalkInOrder(const OutputOrder& order, int64_t t, int64_t n, int64_t d, int64_t h) {
  Walk walk;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    switch (*axis) {
      case OutputAxis::kT:
        walk.step = h;
        h *= t;
        break;
      case OutputAxis::kN:
        walk.row = h;
        h *= n;
        break;
      case OutputAxis::kD:
        walk.direction = h;
        h *= d;
        break;
    }
  }
  return walk;
}

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

struct Destination {
  std::byte* base = nullptr;
  Walk walk;
};

struct Destinations {
  Destination y, final_h, final_c;
};

// Directions of the layers before this one, and of all, as far as they have the state.
struct Directions {
  int64_t before = 0, all = 0;
};

Directions DirectionsOf(const LayerRun& run, OutputKind kind) {
  Directions directions;
  for (size_t k = 0; k < run.stack.layers.size(); ++k) {
    const OpSpec& spec = run.stack.layers[k];
    if (kind != OutputKind::kFinalH && spec.kind != CellKind::kLstm) continue;
    directions.all += spec.directions();
    if (k < run.layer) directions.before += spec.directions();
  }
  return directions;
}

void SetState(const LayerRun& run, const OutputPlan& output, std::byte* buffer, Destination& target) {
  const OpSpec& spec = run.spec();
  const Directions directions = output.layer ? Directions{0, spec.directions()} : DirectionsOf(run, output.kind);
  if (output.order) {
    const int64_t h = spec.hidden_size * static_cast<int64_t>(ByteSize(spec.data_type));
    target.walk = WalkInOrder(*output.order, 1, run.plan.rows, directions.all, h);
  }
  target.base = buffer + directions.before * target.walk.direction;
}

// `targets` comes with the layer's own walks.
void SetTargets(const LayerRun& run, std::span<std::byte* const> buffers, Destinations& targets) {
  const OpSpec& spec = run.spec();
  for (size_t k = 0; k < run.plan.outputs.size(); ++k) {
    const OutputPlan& output = run.plan.outputs[k];
    if (output.kind == OutputKind::kY) {
      if (!run.last()) continue;
      targets.y.base = buffers[k];
      if (!output.order) continue;
      const int64_t h = spec.hidden_size * static_cast<int64_t>(ByteSize(spec.data_type));
      targets.y.walk = WalkInOrder(*output.order, run.plan.steps, run.plan.rows, spec.directions(), h);
    } else if (!output.layer || *output.layer == run.layer) {
      if (output.kind == OutputKind::kFinalC && spec.kind != CellKind::kLstm) continue;
      SetState(run, output, buffers[k], output.kind == OutputKind::kFinalH ? targets.final_h : targets.final_c);
    }
  }
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
  Destinations targets = {{between.y, walks.y}, {between.final_h, walks.state}, {between.final_c, walks.state}};
  if (!given) SetTargets(run, buffers, targets);
  const std::byte* x = run.first() && !given ? plan.x.data.data() : between.x;
  const InitialState initial = plan.initial.empty() ? InitialState() : plan.initial[layer];
  const std::byte* initial_h = initial.h ? initial.h->data.data() : nullptr;
  const std::byte* initial_c = initial.c ? initial.c->data.data() : nullptr;

  const bool has_start = given && !stack.pipeline->starts.empty();
  static const LayerStart kZeros;
  const LayerStart& start = has_start ? stack.pipeline->starts[layer] : kZeros;
  const auto begin = [&](const std::byte* brought, const std::byte* computed, const std::vector<std::byte>& fixed,
                         int64_t n, int64_t d) -> const std::byte* {
    const std::ptrdiff_t bytes = spec.hidden_size * static_cast<std::ptrdiff_t>(ByteSize(spec.data_type));
    if (computed != nullptr) return computed + (n * spec.directions() + d) * bytes;
    if (brought != nullptr || fixed.empty()) return At(brought, walks.state.Offset(n, d));
    return fixed.data() + d * bytes;
  };

  LayerSequences sequences;
  if (plan.steps > 0 || plan.list_empty_rows) sequences.reserve(static_cast<size_t>(plan.rows * spec.directions()));
  for (int64_t d = 0; d < spec.directions(); ++d) {
    const bool backward = spec.direction == Direction::kReverse || d == 1;
    for (int64_t n = 0; n < plan.rows; ++n) {
      Sequence sequence;
      sequence.direction = d;
      sequence.row = n;
      sequence.length = plan.lengths[static_cast<size_t>(n)];
      sequence.initial_h = begin(initial_h, between.initial_h, start.h, n, d);
      sequence.initial_c = begin(initial_c, between.initial_c, start.c, n, d);
      sequence.final_h = At(targets.final_h.base, targets.final_h.walk.Offset(n, d));
      sequence.final_c = At(targets.final_c.base, targets.final_c.walk.Offset(n, d));
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
      if (targets.y.base != nullptr) {
        const Walk& y = targets.y.walk;
        sequence.y = targets.y.base + y.Offset(n, d) + first_step * y.step;
        sequence.y_stride = sign * y.step;
      }
      sequences.push_back(sequence);
    }
  }
  return sequences;
}

}  // namespace rnnserve
