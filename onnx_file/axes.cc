// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/axes.h"

#include <algorithm>
#include <utility>

#include "onnx_file/bad_file.h"
#include "onnx_file/node.h"

namespace rnnserve {

Axes Axes::OfY(int64_t directions, int64_t hidden_size, int64_t layout) {
  Axes axes;
  const LayoutAxis t = {{.symbol = Symbols::kT}}, n = {{.symbol = Symbols::kN}};
  const LayoutAxis h = {hidden_size > 0 ? Atom{.size = hidden_size} : Atom{.symbol = axes.symbols_.New({})}};
  LayoutAxis d;
  if (directions > 1) d = {{.size = directions, .stride = std::max<int64_t>(hidden_size, 1)}};
  axes.features_ = d;
  axes.features_.push_back(h[0]);
  axes.layout_ = layout == 1 ? Layout({n, t, d, h}) : Layout({t, d, n, h});
  return axes;
}

Axes Axes::OfInput() {
  Axes axes;
  std::vector<LayoutAxis> all;
  for (int axis = 0; axis < 3; ++axis) {
    axes.inputs_.push_back(axes.symbols_.New({}));
    all.push_back({{.symbol = axes.inputs_.back()}});
  }
  axes.layout_ = Layout(std::move(all));
  return axes;
}

absl::Status Axes::Apply(const onnx::NodeProto& node, NodeInts ints) {
  if (IsOnnxOp(node, "Identity")) return absl::OkStatus();
  const bool transpose = IsOnnxOp(node, "Transpose"), reshape = IsOnnxOp(node, "Reshape");
  absl::StatusOr<std::optional<std::vector<int64_t>>> list = ints(transpose ? "perm" : reshape ? "shape" : "axes", 1);
  if (!list.ok()) return list.status();
  if (transpose) return layout_.Transpose(*std::move(list));
  if (IsOnnxOp(node, "Squeeze")) return layout_.Squeeze(symbols_, *std::move(list));
  if (!reshape && !IsOnnxOp(node, "Unsqueeze")) return BadFile("computes numbers");
  if (!*list) return BadFile(reshape ? "has no shape" : "names no axes");
  if (!reshape) return layout_.Unsqueeze(**list);
  const onnx::AttributeProto* allow_zero = FindAttribute(node, "allowzero");
  std::vector<Size> shape;
  for (const int64_t size : **list) shape.emplace_back(size);
  return layout_.Reshape(symbols_, shape, allow_zero != nullptr && allow_zero->i() != 0);
}

bool Axes::IsXOf(int64_t layout) const {
  const int outer = layout == 1 ? Symbols::kN : Symbols::kT;
  if (layout_.rank() != 3 || layout_.SymbolOf(0) != outer) return false;
  if (layout_.SymbolOf(1) != (outer == Symbols::kT ? Symbols::kN : Symbols::kT)) return false;
  const LayoutAxis& last = layout_.axes()[2];
  if (!features_.back().is_symbol()) {
    return layout_.FeatureSize(2) == Layout({features_}).FeatureSize(0) && layout_.is_canonical();
  }
  return last.size() == features_.size() && last.back().symbol == features_.back().symbol;  // H not known
}

bool Axes::Are(int first, int second, int third) const {
  return layout_.rank() == 3 && layout_.SymbolOf(0) == first && layout_.SymbolOf(1) == second &&
         layout_.SymbolOf(2) == third;
}

}  // namespace rnnserve
