// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/axes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/layout.h"
#include "onnx_file/node.h"

namespace rnnserve {
// An axis of size 1 is made of nothing: it may go and come.
Axes Axes::OfY(int64_t directions, int64_t hidden_size, int64_t layout) {
  const Axis t = {{'T', {}}}, n = {{'N', {}}}, h = {{'H', hidden_size > 0 ? std::optional(hidden_size) : std::nullopt}};
  const Axis d = directions == 1 ? Axis{} : Axis{{'D', directions}};
  Axes axes;
  axes.axes_ = layout == 1 ? std::vector<Axis>{n, t, d, h} : std::vector<Axis>{t, d, n, h};
  return axes;
}

Axes Axes::OfInput() {
  Axes axes;
  for (const char name : {'A', 'B', 'C'}) axes.axes_.push_back({{name, {}}});
  return axes;
}

absl::Status Axes::Apply(const onnx::NodeProto& node, NodeInts ints) {
  if (IsOnnxOp(node, "Identity")) return absl::OkStatus();
  const bool transpose = IsOnnxOp(node, "Transpose"), reshape = IsOnnxOp(node, "Reshape");
  absl::StatusOr<std::optional<std::vector<int64_t>>> list = transpose ? ints("perm", 1)
                                                             : reshape ? ints("shape", 1)
                                                                       : ints("axes", 1);
  if (!list.ok()) return list.status();
  if (transpose) return Transpose(*std::move(list));
  if (reshape) {
    const onnx::AttributeProto* allow_zero = FindAttribute(node, "allowzero");
    if (allow_zero != nullptr && allow_zero->i() != 0) return BadFile("has allowzero = 1");
    return Reshape(*std::move(list));
  }
  if (IsOnnxOp(node, "Squeeze")) return Squeeze(*std::move(list));
  if (IsOnnxOp(node, "Unsqueeze")) return Unsqueeze(*std::move(list));
  return BadFile("computes numbers");
}

absl::Status Axes::Transpose(std::optional<std::vector<int64_t>> perm) {
  if (!perm) {
    std::ranges::reverse(axes_);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::set<size_t>> all = AxesOf(*perm, axes_.size());
  if (!all.ok()) return all.status();
  if (all->size() != axes_.size()) {
    return BadFile(absl::StrCat("has a perm of ", perm->size(), " axes, but ", axes_.size(), " come"));
  }
  std::vector<Axis> moved;
  for (const int64_t from : *perm) moved.push_back(axes_[*AxisOf(from, axes_.size())]);
  axes_ = std::move(moved);
  return absl::OkStatus();
}

absl::Status Axes::Squeeze(std::optional<std::vector<int64_t>> which) {
  if (!which) return BadFile("names no axes, so that an axis of one step or one row would go as well");
  const absl::StatusOr<std::set<size_t>> places = AxesOf(*which, axes_.size());
  if (!places.ok()) return places.status();
  std::vector<Axis> left;
  for (size_t k = 0; k < axes_.size(); ++k) {
    if (!places->contains(k)) {
      left.push_back(axes_[k]);
    } else if (!axes_[k].empty()) {
      return BadFile(absl::StrCat("takes axis ", k, " out of ", Text(), ", which is not always 1"));
    }
  }
  axes_ = std::move(left);
  return absl::OkStatus();
}

absl::Status Axes::Unsqueeze(std::optional<std::vector<int64_t>> which) {
  if (!which) return BadFile("names no axes");
  const size_t rank = axes_.size() + which->size();
  if (rank > kMaxAxes) return BadFile(absl::StrCat("gives ", rank, " axes"));
  const absl::StatusOr<std::set<size_t>> places = AxesOf(*which, rank);
  if (!places.ok()) return places.status();
  std::vector<Axis> widened;
  for (size_t k = 0, next = 0; k < rank; ++k) widened.push_back(places->contains(k) ? Axis{} : axes_[next++]);
  axes_ = std::move(widened);
  return absl::OkStatus();
}

absl::StatusOr<Axes::Axis> Axes::Take(int64_t size, size_t index, bool from_back, std::vector<Atom>& atoms) const {
  Axis taken;
  const auto take_one = [&] {
    taken.insert(from_back ? taken.begin() : taken.end(), from_back ? atoms.back() : atoms.front());
    atoms.erase(from_back ? atoms.end() - 1 : atoms.begin());
  };
  if (size == 0) {  // as it comes
    if (index >= axes_.size()) return BadFile(absl::StrCat("keeps axis ", index, " of ", Text()));
    while (taken.size() < axes_[index].size() && !atoms.empty()) take_one();
    if (taken != axes_[index]) return BadFile(absl::StrCat("keeps axis ", index, " of ", Text(), " in another place"));
    return taken;
  }
  int64_t product = 1;
  while (product < size && !atoms.empty()) {
    const std::optional<int64_t> next = (from_back ? atoms.back() : atoms.front()).size;
    if (!next || __builtin_mul_overflow(product, *next, &product)) break;
    take_one();
  }
  while (!atoms.empty() && (from_back ? atoms.back() : atoms.front()).size == 1) take_one();  // H = 1 goes along
  if (product == size) return taken;
  return BadFile(absl::StrCat("makes an axis of ", size, " out of ", Text(),
                              "; steps and rows are as many as a request brings (name them 0 or -1)"));
}

absl::Status Axes::Reshape(std::optional<std::vector<int64_t>> shape) {
  if (!shape) return BadFile("has no shape");
  if (shape->size() > kMaxAxes) return BadFile(absl::StrCat("gives ", shape->size(), " axes"));
  std::vector<Atom> atoms;
  for (const Axis& axis : axes_) atoms.insert(atoms.end(), axis.begin(), axis.end());
  const auto rest = std::ranges::find(*shape, -1);
  const auto before = static_cast<size_t>(rest - shape->begin());
  std::vector<Axis> made(shape->size());
  for (size_t k = 0; k < before; ++k) {
    absl::StatusOr<Axis> axis = Take((*shape)[k], k, /*from_back=*/false, atoms);
    if (!axis.ok()) return axis.status();
    made[k] = *std::move(axis);
  }
  for (size_t k = shape->size(); k-- > before + 1;) {
    absl::StatusOr<Axis> axis = Take((*shape)[k], k, /*from_back=*/true, atoms);
    if (!axis.ok()) return axis.status();
    made[k] = *std::move(axis);
  }
  if (rest != shape->end()) {
    made[before] = std::move(atoms);
  } else if (!atoms.empty()) {
    return BadFile(absl::StrCat("has a shape that holds only a part of ", Text()));
  }
  axes_ = std::move(made);
  return absl::OkStatus();
}

bool Axes::Is(std::string_view axes) const {
  if (axes_.size() != 3) return false;
  std::string names;
  for (const Axis& axis : axes_) {
    for (const Atom& atom : axis) names += atom.name;
    names += ' ';
  }
  return names == axes;
}

// D, where there are two, is outside of H.
bool Axes::IsXOf(int64_t layout) const {
  return layout == 1 ? Is("N T H ") || Is("N T DH ") : Is("T N H ") || Is("T N DH ");
}
bool Axes::IsInputTurned() const { return Is("B A C "); }
bool Axes::IsInputItself() const { return Is("A B C "); }

std::string Axes::Text() const {
  const auto axis = [](std::string* out, const Axis& atoms) {
    const auto name = [](std::string* text, const Atom& atom) { text->push_back(atom.name); };
    out->append(atoms.empty() ? "1" : absl::StrJoin(atoms, "*", name));
  };
  return absl::StrCat("[", absl::StrJoin(axes_, ", ", axis), "]");
}

}  // namespace rnnserve
