// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/file_names_maker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/op/op_spec.h"

namespace rnnserve {
namespace {

// What the axes of an output are, beside H: directions of all its layers, and the size of H.
struct StateAxes {
  int64_t directions = 1;
  int64_t hidden_size = 0;
};

// All axes in one list, the slowest first, without those of size 1; neighbours that lie one in the other are one.
std::vector<Atom> AtomsOf(const Layout& layout) {
  std::vector<Atom> atoms;
  for (const LayoutAxis& axis : layout.axes()) {
    for (const Atom& atom : axis) {
      if (!atom.is_symbol() && atom.size == 1) continue;
      if (!atoms.empty() && !atom.is_symbol() && !atoms.back().is_symbol() &&
          atoms.back().stride == atom.size * atom.stride) {
        atoms.back() = {.size = atoms.back().size * atom.size, .stride = atom.stride};
      } else {
        atoms.push_back(atom);
      }
    }
  }
  return atoms;
}

// nullopt: H is not the fastest, or an axis is cut.
std::optional<OutputOrder> OrderOf(const Layout& layout, const Symbols& symbols, const StateAxes& axes, bool per_step) {
  const std::vector<Atom> atoms = AtomsOf(layout);
  std::vector<OutputAxis> order;
  bool has_h = axes.hidden_size == 1, has_d = axes.directions == 1;
  for (size_t k = 0; k < atoms.size(); ++k) {
    const Atom& atom = atoms[k];
    const bool is_last = k + 1 == atoms.size();
    if (atom.is_symbol()) {
      order.push_back(symbols.Find(atom.symbol) == Symbols::kT ? OutputAxis::kT : OutputAxis::kN);
    } else if (!has_d && atom.stride == axes.hidden_size && atom.size == axes.directions) {
      order.push_back(OutputAxis::kD);
      has_d = true;
    } else if (!has_h && is_last && atom.stride == 1 && atom.size == axes.hidden_size) {
      has_h = true;
    } else if (!has_h && !has_d && is_last && atom.stride == 1 && atom.size == axes.directions * axes.hidden_size) {
      order.push_back(OutputAxis::kD);
      has_h = has_d = true;
    } else {
      return std::nullopt;
    }
  }
  if (!has_h || !has_d) return std::nullopt;
  if (axes.directions == 1) order.insert(order.begin(), OutputAxis::kD);
  if (!per_step) order.insert(order.begin(), OutputAxis::kT);
  OutputOrder made = {};
  if (order.size() != made.size()) return std::nullopt;
  std::ranges::copy(order, made.begin());
  for (const OutputAxis axis : {OutputAxis::kT, OutputAxis::kN, OutputAxis::kD}) {
    if (std::ranges::count(made, axis) != 1) return std::nullopt;
  }
  return made;
}

class NamesMaker {
 public:
  NamesMaker(Lowering& lowered, const Pipeline& pipeline)
      : layers_(lowered.layers()), nodes_(lowered.flows().nodes()), lowered_(lowered), pipeline_(pipeline) {}

  FileNamesPtr Make() {
    auto names = std::make_shared<FileNames>();
    if (!Inputs(*names)) return nullptr;
    for (size_t k = 0; k < pipeline_.outputs.size(); ++k) {
      if (!Output(k, *names)) return nullptr;
    }
    return names;
  }

 private:
  bool Inputs(FileNames& names) const {
    for (const PipelineInput& input : pipeline_.inputs) {
      if (input.kind == PipelineInput::Kind::kLengths && !HasLengths()) continue;  // the pipeline's own
      names.inputs.push_back(input);
      names.inputs.back().optional = input.kind != PipelineInput::Kind::kSteps;
    }
    if (std::ranges::count(names.inputs, PipelineInput::Kind::kSteps, &PipelineInput::kind) != 1) return false;
    const Shape& x = names.x().shape;
    const Place& place = pipeline_.places[static_cast<size_t>(pipeline_.layer_x[0])];
    const bool rows_first = !x.empty() && x[0] == kDimN;
    return place.kind == PlaceKind::kInput && x.size() >= 2 && x[0] == (rows_first ? kDimN : kDimT) &&
           x[1] == (rows_first ? kDimT : kDimN) && (rows_first || !layers_[0].rows_first);
  }

  bool HasLengths() const {
    return std::ranges::find(lowered_.inputs(), InputUse::Kind::kLengths, &InputUse::kind) != lowered_.inputs().end();
  }

  // Whether it is Y of the last layer or final states, each for the first time.
  bool Output(size_t number, FileNames& names) const {
    const PipelineOutput& output = pipeline_.outputs[number];
    if (output.type != pipeline_.places[static_cast<size_t>(pipeline_.layer_x[0])].type) return false;  // of a Cast
    const Flow& flow = lowered_.outputs()[number].flow;
    FileOutput made = {.name = output.name, .type = output.type, .shape = output.shape};
    StateAxes axes;
    const bool is_y = node(flow.node).kind == FlowNode::Kind::kLayerY;
    if (is_y) {
      if (node(flow.node).layer + 1 != layers_.size()) return false;
      axes = {layers_.back().directions, layers_.back().hidden_size};
    } else if (!States(flow.node, made, axes)) {
      return false;
    }
    const std::optional<OutputOrder> order = OrderOf(flow.layout, lowered_.symbols(), axes, is_y);
    if (!order) return false;
    made.order = *order;
    for (const FileOutput& other : names.outputs) {
      const bool is_same = other.kind == made.kind && (!other.layer || !made.layer || *other.layer == *made.layer);
      if (is_same || other.name == made.name) return false;
    }
    names.outputs.push_back(std::move(made));
    return true;
  }

  // The final states of one layer or of all, one after the other.
  bool States(int from, FileOutput& made, StateAxes& axes) const {
    std::vector<const FlowNode*> parts;
    if (!Parts(from, parts) || parts.empty()) return false;
    const FlowNode& first = *parts[0];
    made.kind = first.kind == FlowNode::Kind::kFinalH ? OutputKind::kFinalH : OutputKind::kFinalC;
    axes = {static_cast<int64_t>(parts.size()), layers_[first.layer].hidden_size};
    if (parts.size() == static_cast<size_t>(layers_[first.layer].directions)) made.layer = first.layer;
    size_t next = 0;
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const bool has_it = first.kind == FlowNode::Kind::kFinalH || layers_[layer].op.op.op_type == "LSTM";
      if (!has_it || (made.layer && *made.layer != layer)) continue;
      if (layers_[layer].hidden_size != axes.hidden_size) return false;
      for (int64_t direction = 0; direction < layers_[layer].directions; ++direction, ++next) {
        if (next == parts.size() || parts[next]->kind != first.kind || parts[next]->layer != layer ||
            parts[next]->direction != direction) {
          return false;
        }
      }
    }
    return next == parts.size();
  }

  // Final states that are joined, as often as it may be; a file's graph has no cycles.
  bool Parts(int from, std::vector<const FlowNode*>& parts) const {
    std::vector<int> waiting = {from};
    while (!waiting.empty()) {
      const FlowNode& next = node(waiting.back());
      waiting.pop_back();
      if (next.kind == FlowNode::Kind::kFinalH || next.kind == FlowNode::Kind::kFinalC) {
        parts.push_back(&next);
      } else if (next.kind == FlowNode::Kind::kOp && next.op.kind == MapOpKind::kConcat && next.result == 0 &&
                 next.op.inner == next.width && parts.size() + waiting.size() < kMostParts) {
        waiting.insert(waiting.end(), next.op.in.rbegin(), next.op.in.rend());
      } else {
        return false;
      }
    }
    return true;
  }

  const FlowNode& node(int number) const { return nodes_[static_cast<size_t>(number)]; }

  static constexpr size_t kMostParts = 4096;
  const std::vector<LoweredLayer>& layers_;
  const std::vector<FlowNode>& nodes_;
  const Lowering& lowered_;
  const Pipeline& pipeline_;
};

}  // namespace

FileNamesPtr MakeFileNames(Lowering& lowered, const Pipeline& pipeline) { return NamesMaker(lowered, pipeline).Make(); }

}  // namespace rnnserve
