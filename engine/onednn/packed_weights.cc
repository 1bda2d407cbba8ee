// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/packed_weights.h"

#include <algorithm>
#include <span>
#include <utility>

namespace rnnserve::onednn {
namespace {

using Tag = Memory::format_tag;

// Where each of oneDNN's gates stands among ONNX's.
std::span<const size_t> GateOrder(CellKind kind) {
  static constexpr size_t kLstm[] = {0, 2, 3, 1}, kOther[] = {0, 1, 2};
  if (kind == CellKind::kLstm) return kLstm;
  return std::span(kOther).first(static_cast<size_t>(GateCount(kind)));
}

// Whether layouts are tied to rows and steps: those of a GRU, and without AVX2 all.
bool LayoutsVary(CellKind kind) {
  const auto avx2 = static_cast<unsigned>(dnnl::cpu_isa::avx2);
  return kind == CellKind::kGru || (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx2) != avx2;
}

// Pairs of layouts besides the plain ones.
size_t MostPackings(CellKind kind) { return LayoutsVary(kind) ? 2 : 1; }

float* Values(const Memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

// Blocks of `size` values in another order.
void CopyBlocks(std::span<const float> source, std::span<const size_t> order, size_t size, float* target) {
  for (const size_t block : order) target = std::copy_n(source.data() + block * size, size, target);
}

void Reorder(const Memory& source, const Memory& target) {
  dnnl::stream stream(source.get_engine());
  dnnl::reorder(source, target).execute(stream, const_cast<Memory&>(source), const_cast<Memory&>(target));
  stream.wait();
}

Memory MakeBias(const dnnl::engine& engine, const Cell& cell) {
  const auto& [w, r, wb, rb, p] = cell.weights_f32();
  const auto units = static_cast<size_t>(cell.spec().hidden_size);
  const int64_t gates = BiasGates(cell.spec());
  std::vector<float> sums(wb.size());
  for (size_t k = 0; k < sums.size(); ++k) sums[k] = wb[k] + rb[k];
  Memory bias({{1, 1, gates, cell.spec().hidden_size}, Memory::data_type::f32, Tag::ldgo}, engine);
  CopyBlocks(sums, GateOrder(cell.spec().kind), units, Values(bias));
  if (gates > GateCount(cell.spec().kind)) {
    std::copy_n(wb.data() + 2 * units, units, Values(bias) + 2 * units);
    std::copy_n(rb.data() + 2 * units, units, Values(bias) + 3 * units);
  }
  return bias;
}

Memory MakePeephole(const dnnl::engine& engine, const Cell& cell) {
  if (!cell.spec().has_peephole) return {};
  Memory peephole({{1, 1, 3, cell.spec().hidden_size}, Memory::data_type::f32, Tag::ldgo}, engine);
  static constexpr size_t kOrder[] = {0, 2, 1};
  CopyBlocks(cell.weights_f32().p, kOrder, static_cast<size_t>(cell.spec().hidden_size), Values(peephole));
  return peephole;
}

}  // namespace

PackedWeights::PackedWeights(const dnnl::engine& engine, CellPtr cell)
    : engine_(engine),
      cell_(std::move(cell)),
      bias_(MakeBias(engine_, *cell_)),
      peephole_(MakePeephole(engine_, *cell_)) {}

std::optional<PackedWeights::Pair> PackedWeights::Find(const Recurrence& recurrence, WeightLayout layout) {
  const MutexLock lock(mutex_);
  for (const Pair& pair : pairs_) {
    if (pair.w.get_desc() == recurrence.w && pair.r.get_desc() == recurrence.r) return pair;
  }
  if (layout == WeightLayout::kFastest && pairs_.size() >= MostPackings(cell_->spec().kind)) return std::nullopt;
  return pairs_.emplace_back(Pair{Pack(recurrence.w, false), Pack(recurrence.r, true)});
}

// Two steps: packed layouts are made from igo only, and of their own type.
Memory PackedWeights::Pack(const Memory::desc& layout, bool recurrent) const {
  const CellSpec& spec = cell_->spec();
  const std::vector<float>& source = recurrent ? cell_->weights_f32().r : cell_->weights_f32().w;
  const int64_t inputs = recurrent ? spec.hidden_size : spec.input_size;
  const Memory::dims dims = {1, 1, inputs, GateCount(spec.kind), spec.hidden_size};
  Memory by_gate({dims, Memory::data_type::f32, Tag::ldgoi}, engine_);
  CopyBlocks(source, GateOrder(spec.kind), static_cast<size_t>(inputs * spec.hidden_size), Values(by_gate));
  Memory by_input({dims, OneDnnType(spec.data_type), Tag::ldigo}, engine_);
  Reorder(by_gate, by_input);
  if (layout == by_input.get_desc()) return by_input;
  Memory packed(layout, engine_);
  Reorder(by_input, packed);
  return packed;
}

int64_t PackedWeights::most_bytes() const {
  const CellSpec& spec = cell_->spec();
  const int64_t pair = GateCount(spec.kind) * spec.hidden_size * (spec.input_size + spec.hidden_size) *
                       static_cast<int64_t>(ByteSize(spec.data_type));
  // Where layouts vary, the plain one comes on top.
  const auto pairs = static_cast<int64_t>(MostPackings(spec.kind)) + (LayoutsVary(spec.kind) ? 1 : 0);
  return pairs * pair + static_cast<int64_t>(bias_.get_desc().get_size());
}

}  // namespace rnnserve::onednn
