// SPDX-License-Identifier: Apache-2.0
// What graph inputs are: the nodes that take them tell, and which axes are steps, rows and numbers of a step.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

constexpr size_t kMostFeatureAxes = 16;  // that are seen by reading again
constexpr size_t kMostGuessed = 3;       // of inputs, of which each choice is tried

}  // namespace

std::unique_ptr<Lowering> Lowering::Read(const onnx::GraphProto& graph, Constants& constants, int64_t opset, Ends ends,
                                         absl::Status& status) {
  const absl::StatusOr<std::shared_ptr<const Scope>> scope = Scope::Create(graph);
  const auto make = [&](const std::optional<Names>& guess) {
    std::unique_ptr<Lowering> made(new Lowering(graph, constants, opset, ends));
    made->scope_ = scope.ok() ? *scope : nullptr;  // by which `constants` knows its values
    made->guess_ = guess;
    return made;
  };
  status = scope.status();
  if (!status.ok()) return make({});
  std::unique_ptr<Lowering> first = ReadAxes([&] { return make({}); }, status);
  if (status.ok()) return first;
  bool leaves_steps = false;
  const Names may = first->MayBringRows(leaves_steps);
  const std::vector<std::string> names(may.begin(), may.end());
  // What is read otherwise where the graph could not be read: first without a guess, then with ever fewer records.
  std::vector<Names> guesses;
  if (first->guesses_records_) guesses.emplace_back();
  const size_t at_first = guesses.size();
  for (unsigned chosen = (1U << std::min(names.size(), kMostGuessed)) - 1; chosen > 0; --chosen) {
    Names guess(names.begin() + static_cast<int64_t>(std::min(names.size(), kMostGuessed)), names.end());
    for (size_t k = 0; k < names.size() && k < kMostGuessed; ++k) {
      if ((chosen >> k & 1U) != 0) guess.insert(names[k]);
    }
    if (leaves_steps || guess.size() < names.size()) guesses.push_back(std::move(guess));
  }
  for (size_t k = 0; k < guesses.size(); ++k) {
    absl::Status other;
    std::unique_ptr<Lowering> made = ReadAxes([&] { return make(guesses[k]); }, other);
    // Or its words, where all records are guessed and it got at least as far.
    if (!other.ok() && (k != at_first || made->done_.size() < first->done_.size())) continue;
    status = other;
    first = std::move(made);
    if (status.ok()) break;
  }
  return first;
}

std::unique_ptr<Lowering> Lowering::ReadAxes(const std::function<std::unique_ptr<Lowering>()>& make,
                                             absl::Status& status) {
  std::unique_ptr<Lowering> first = make(), last;
  status = first->Run();
  absl::Status latest = status;
  for (const Lowering* seen = first.get(); !latest.ok() && !seen->wanted_features_.empty(); seen = last.get()) {
    std::unique_ptr<Lowering> next = make();
    next->features_ = seen->features_;
    next->features_.insert(seen->wanted_features_.begin(), seen->wanted_features_.end());
    latest = next->Run();
    if (next->lacks_axes_ || next->features_.size() > kMostFeatureAxes) return first;
    last = std::move(next);
  }
  if (last == nullptr) return first;
  status = latest;
  return last;
}

std::optional<int64_t> DimOf(const onnx::ValueInfoProto& input, int axis) {
  const auto& dim = input.type().tensor_type().shape().dim(axis);
  return dim.has_dim_value() && dim.dim_value() > 0 ? std::optional(dim.dim_value()) : std::nullopt;
}

void Lowering::FindUses() {
  for (const onnx::ValueInfoProto& output : graph_.output()) otherwise_used_.insert(output.name());
  for (int k = graph_.node_size() - 1; k >= 0; --k) {  // nodes come after what they take
    const onnx::NodeProto& node = graph_.node(k);
    if (node.input_size() > 1 && IsOnnxOp(node, "Gather")) {
      const Scope::Definition* table = scope_->Find(node.input(0));
      const bool is_fixed =
          table != nullptr && (table->tensor != nullptr || constants_.Value(*scope_, node.input(0)).ok());
      if (is_fixed) looked_up_.insert(node.input(1));
    }
    const bool moves = OnlyMoves(node);
    for (int input = 0; input < node.input_size(); ++input) {
      const bool looks_up =
          (input == 1 && IsOnnxOp(node, "Gather")) || (input == 0 && IsOnnxOp(node, "OneHot")) ||
          (input == 0 && moves && node.output_size() == 1 && !otherwise_used_.contains(node.output(0)));
      if (!looks_up) otherwise_used_.insert(node.input(input));
    }
    for (int input = 5; IsRecurrent(node) && input <= 6 && input < node.input_size(); ++input) {
      states_.insert(node.input(input));
    }
    if (node.input_size() == 1 && node.output_size() == 1 && states_.contains(node.output(0)) &&
        (IsOnnxOp(node, "Cast") || IsOnnxOp(node, "Identity"))) {
      states_.insert(node.input(0));
    }
    const bool is_part = node.input_size() > 0 && node.output_size() > 0 && states_.contains(node.output(0)) &&
                         (IsOnnxOp(node, "Slice") || IsOnnxOp(node, "Split") || IsOnnxOp(node, "Gather"));
    if (is_part) parted_states_.insert(node.input(0));
    if (moves && node.input_size() > 0 && node.output_size() == 1 && looked_up_.contains(node.output(0))) {
      looked_up_.insert(node.input(0));
    }
  }
}

void Lowering::WantAsFeatures(const Layout& layout, size_t axis) {
  for (const Atom& atom : layout.axes()[axis]) {
    if (!atom.is_symbol() || symbols_.Find(atom.symbol) <= Symbols::kSortedN) continue;
    for (const auto& [symbol, origin] : input_axes_) {
      if (symbols_.Find(symbol) == symbols_.Find(atom.symbol)) wanted_features_.insert(origin);
    }
  }
}

std::optional<int64_t> Lowering::FeatureSize(const Layout& layout, size_t axis) {
  WantAsFeatures(layout, axis);
  return layout.FeatureSize(axis);
}

// Steps and rows are the axes without a fixed size, and then the first ones, unless another reading has seen them as
// features. Which is which will be seen where a layer takes them. A record of a row has its rows first.
absl::StatusOr<Layout> Lowering::LayoutOf(size_t input) {
  const onnx::ValueInfoProto& info = graph_.input(static_cast<int>(input));
  const int rank = info.type().tensor_type().shape().dim_size();
  const bool is_of_row = inputs_[input].is_of_row;
  std::set<int> outer;
  if (is_of_row) outer.insert(0);
  for (int axis = 0; axis < rank; ++axis) {
    if (DimOf(info, axis) || rank <= 2) continue;
    if (outer.size() == 2) {
      Blame({.takes_unknown_shape = true});
      return BadFile(absl::StrCat("has no fixed size as axis ", axis, "; only steps and rows may be open"));
    }
    outer.insert(axis);
  }
  for (int axis = 0; axis < rank && outer.size() < 2 && !is_of_row; ++axis) {
    if (!features_.contains({input, axis})) outer.insert(axis);
  }
  lacks_axes_ |= rank > 1 && outer.size() < 2 && !is_of_row;
  std::vector<LayoutAxis> axes;
  int64_t width = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const std::optional<int64_t> size = DimOf(info, axis);
    if (!outer.contains(axis)) {
      if (*size > FlowGraph::kMaxWidth || (width *= *size) > FlowGraph::kMaxWidth) {
        return BadFile(absl::StrCat("has more than ", FlowGraph::kMaxWidth, " numbers a step"));
      }
      axes.push_back({{.size = *size}});
      continue;
    }
    const int symbol = symbols_.New(size);
    if (size && !is_of_row) input_axes_[symbol] = {input, axis};
    axes.push_back({{.symbol = symbol}});
  }
  return Layout(std::move(axes)).Canonical();
}

absl::StatusOr<Flow> Lowering::AsSteps(size_t input) {
  InputUse& use = inputs_[input];
  const onnx::ValueInfoProto& info = graph_.input(static_cast<int>(input));
  const std::string label = absl::StrCat("takes graph input ", Quoted(info.name()), ", which ");
  if (use.kind != InputUse::Kind::kUnused && use.kind != InputUse::Kind::kSteps) {
    return BadFile(absl::StrCat(label, "is the lengths or a state already"));
  }
  if (use.kind == InputUse::Kind::kUnused) {
    if (!info.type().tensor_type().has_shape()) {
      Blame({.takes_unknown_shape = true});
      return BadFile(absl::StrCat(label,
                                  "has no shape in the file; export it with its shape (of inner values, Python: "
                                  "onnx.shape_inference.infer_shapes(model))"));
    }
    const auto type = static_cast<DataType>(info.type().tensor_type().elem_type());
    if (ByteSize(type) == 0) {
      return BadFile(absl::StrCat(label, "is of ", OnnxTypeName(type),
                                  ", but FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT32 or ",
                                  "INT64 is needed; export the model with an input of such a type, and let callers "
                                  "cast what they send"));
    }
    const int rank = info.type().tensor_type().shape().dim_size();
    use.is_of_row = BringsRows(info);
    const bool is_one_step = rank == 1 && !IsFloating(type) && LooksUp(info.name());
    if (rank == 1 && !IsFloating(type) && !is_one_step) {
      return BadFile(absl::StrCat(
          label,
          "has one axis, as lengths have, of which a model computes masks (step < length) and orders of rows (PyTorch: "
          "pack_padded_sequence) alone; leave the rest out: requests bring sequence_lens, and means, extremes and last "
          "steps are of each row's own steps"));
    }
    if ((rank < 2 && !is_one_step) || rank > 6) {
      return BadFile(
          absl::StrCat(label, "has ", rank, " axes; two of at most six are steps and rows (export with a batch axis)"));
    }
    absl::StatusOr<Layout> layout = LayoutOf(input);
    if (!layout.ok()) return BadFile(absl::StrCat(label, layout.status().message()));
    if (use.is_of_row) {
      symbols_.Unify(Symbols::kN, *layout->SymbolOf(0));
    } else if (is_one_step && !is_one_step_) {
      is_one_step_ = true;
      symbols_.Unify(Symbols::kT, symbols_.New(1));
    }
    use.layout = *std::move(layout);
    use.type = type;
    FlowNode node;
    node.kind = FlowNode::Kind::kInput;
    node.input = input;
    node.is_integer = !IsFloating(type);
    node.width = use.layout.width();
    node.per_step = !use.is_of_row;
    node.of_record = use.is_of_row;
    const absl::StatusOr<int> made = flows_.Add(std::move(node));
    if (!made.ok()) return made.status();
    use.node = *made;
    use.kind = InputUse::Kind::kSteps;
  }
  return Flow{use.node, use.layout, use.type};
}

}  // namespace rnnserve
