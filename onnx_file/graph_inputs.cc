// SPDX-License-Identifier: Apache-2.0
// Where the inputs of a graph's recurrent nodes come from.
#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/graph.h"
#include "onnx_file/node.h"
#include "onnx_file/state_width.h"

namespace rnnserve {
namespace {

constexpr int64_t kStateRank = 3;

// A Cast that lengths pass as they are; one to bool, for one, makes 1 of all.
bool KeepsLengths(const onnx::NodeProto& node) {
  if (!IsOnnxOp(node, "Cast")) return false;
  const onnx::AttributeProto* to = FindAttribute(node, "to");
  return to != nullptr && (to->i() == onnx::TensorProto::INT32 || to->i() == onnx::TensorProto::INT64);
}

}  // namespace

absl::StatusOr<std::optional<std::vector<int64_t>>> OnnxGraph::Ints(const onnx::NodeProto& node, std::string_view name,
                                                                    size_t index) const {
  std::vector<OnnxTensor> values(index + 1);
  std::vector<const OnnxTensor*> inputs(index + 1, nullptr);
  const bool is_input = FindAttribute(node, name) == nullptr && static_cast<int>(index) < node.input_size() &&
                        !node.input(static_cast<int>(index)).empty();
  if (is_input) {
    absl::StatusOr<OnnxTensor> value = constants_->Value(*scope_, node.input(static_cast<int>(index)));
    if (!value.ok()) {
      return BadFile(absl::StrCat("takes its ", View(name), " from ", Quoted(node.input(static_cast<int>(index))),
                                  ", which ", value.status().message()));
    }
    values[index] = *std::move(value);
    inputs[index] = &values[index];
  }
  int64_t no_bytes = 0;
  return FoldCall{node, inputs, no_bytes}.Ints(name, index);
}

absl::StatusOr<OnnxGraph::Source> OnnxGraph::Fixed(size_t index, Source source) const {
  absl::StatusOr<OnnxTensor> value = constants_->Value(*scope_, source.name);
  if (!value.ok()) {
    return BadFile(absl::StrCat(InputLabel(index, source.name), " ", value.status().message(),
                                absl::IsNotFound(value.status()) ? kFixWeights : ""));
  }
  source.value = *std::move(value);
  return source;
}

absl::StatusOr<OnnxGraph::Source> OnnxGraph::Input(size_t layer, size_t index) const {
  const onnx::NodeProto& node = *layers_[layer].node;
  Source source;
  if (static_cast<int>(index) >= node.input_size()) return source;
  source.name = node.input(static_cast<int>(index));
  if (source.name.empty()) return source;
  if (IsWeightInput(index)) return Fixed(index, std::move(source));
  if (index == 0) return TurnedX(layers_[layer], std::move(source));
  const bool is_state = IsStateInput(index);
  if (is_state) {
    if (absl::Status fits = CheckStateWidth(*constants_, *scope_, node, index); !fits.ok()) return fits;
  }
  absl::Status narrowed;  // matters where a request brings the state
  // A chain longer than there are nodes is a ring.
  for (int hops = 0; hops <= scope_->graph().node_size(); ++hops) {
    const Scope::Definition* definition = scope_->Find(source.name);
    if (definition == nullptr) break;
    if (definition->is_input()) return narrowed.ok() ? absl::StatusOr<Source>(std::move(source)) : narrowed;
    if (definition->tensor != nullptr || IsOnnxOp(*definition->node, "Constant")) {
      return Fixed(index, std::move(source));
    }
    const onnx::NodeProto& by = *definition->node;
    if (is_state && IsOnnxOp(by, "ConstantOfShape")) {
      source.zeros = by.attribute_size() == 0;
      if (!source.zeros) {
        absl::StatusOr<OnnxTensor> value = constants_->Stored(by.attribute(0).t());
        if (!value.ok()) return value.status();
        source.value = *std::move(value);
      }
      return source;
    }
    const bool narrows = is_state && IsOnnxOp(by, "Slice");
    const bool passed_on = narrows || IsOnnxOp(by, "Identity") || (is_state && IsOnnxOp(by, "Expand")) ||
                           (index == kLengthsInput && KeepsLengths(by));
    if (!passed_on || by.input_size() == 0) return Computed(layers_[layer], index, by);
    if (narrows && narrowed.ok()) {
      if (absl::Status status = Narrow(layers_[layer], by, source); !status.ok()) {
        narrowed =
            BadFile(absl::StrCat(InputLabel(index, node.input(static_cast<int>(index))), " of ", layers_[layer].label,
                                 " comes from ", NodeLabel(by, definition->node_index), ", which ", status.message()));
      }
    }
    source.name = by.input(0);
  }
  return BadFile(absl::StrCat(InputLabel(index, node.input(static_cast<int>(index))),
                              " is neither a graph input nor an initializer"));
}

// PyTorch's h0[k:k + 1]: one Slice of the first axis.
absl::Status OnnxGraph::Narrow(const Layer& layer, const onnx::NodeProto& node, Source& source) const {
  if (source.rows) return BadFile("slices what is sliced again");
  if (layer.layout == 1) return BadFile("cuts a state that is [N, D, H] (layout 1); give each layer a graph input");
  const auto one = [&](std::string_view name, size_t index,
                       std::optional<int64_t> otherwise) -> absl::StatusOr<int64_t> {
    const absl::StatusOr<std::optional<std::vector<int64_t>>> list = Ints(node, name, index);
    if (!list.ok()) return list.status();
    if (*list && (*list)->size() == 1) return (**list)[0];
    if (!*list && otherwise) return *otherwise;
    return BadFile(absl::StrCat("slices other axes than the first, or has no ", View(name)));
  };
  const absl::StatusOr<int64_t> first = one("starts", 1, {}), end = one("ends", 2, {});
  const absl::StatusOr<int64_t> axis = one("axes", 3, 0), step = one("steps", 4, 1);
  for (const auto* number : {&first, &end, &axis, &step}) {
    if (!number->ok()) return number->status();
  }
  if ((*axis != 0 && *axis != -kStateRank) || *step != 1)
    return BadFile("slices other axes than the first, or with steps");
  source.rows = Rows{*first, *end};
  return absl::OkStatus();
}

// A graph input, or one whose first two axes are turned.
absl::StatusOr<OnnxGraph::Source> OnnxGraph::TurnedX(const Layer& layer, Source source) const {
  std::vector<const onnx::NodeProto*> nodes;  // the last first
  for (int hops = 0; hops <= scope_->graph().node_size(); ++hops) {
    const Scope::Definition* definition = scope_->Find(source.name);
    if (definition == nullptr) break;
    if (definition->tensor != nullptr) return Fixed(0, std::move(source));
    if (definition->is_input()) {
      Axes axes = Axes::OfInput();
      for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        const auto ints = [&](std::string_view name, size_t index) { return Ints(**node, name, index); };
        if (!axes.Apply(**node, ints).ok()) return Computed(layer, 0, **node);
      }
      source.turned = axes.IsInputTurned();
      if ((source.turned && layer.layout == 0) || axes.IsInputItself()) return source;
      return Computed(layer, 0, *nodes.front());
    }
    if (IsOnnxOp(*definition->node, "Constant")) return Fixed(0, std::move(source));
    nodes.push_back(definition->node);
    if (nodes.back()->input_size() == 0) return Computed(layer, 0, *nodes.back());
    source.name = nodes.back()->input(0);
  }
  return BadFile(absl::StrCat(InputLabel(0, layer.node->input(0)), " is neither a graph input nor an initializer"));
}

absl::Status OnnxGraph::Computed(const Layer& layer, size_t index, const onnx::NodeProto& by) const {
  const std::string_view mend =
      index == 0 ? "make it a graph input, [T, N, I], or [N, T, I] with one Transpose of its first two axes (PyTorch: "
                   "batch_first)"
      : index < kLengthsInput  ? "store it as an initializer (PyTorch: do_constant_folding=True)"
      : index == kLengthsInput ? "make it a graph input"
                               : "make it a graph input, or zeros";
  return BadFile(absl::StrCat("input ", index, " of the ", layer.node->op_type(), " node, ",
                              Quoted(layer.node->input(static_cast<int>(index))), ", is computed in the graph (",
                              Quoted(by.op_type()), "); ", std::string(mend)));
}

}  // namespace rnnserve
