// SPDX-License-Identifier: Apache-2.0
// What the axes of a tensor mean while a graph is read: which of them are steps, which rows, and how what is left lies
// in one step's numbers. Nodes that only move axes change a layout and no number.
//
//   Symbols symbols;                                        // T, N, and those of inputs that are not known yet
//   Layout y = Layout::Of({{symbols.t()}, {2, 5}, {symbols.n()}, {5, 1}});   // Y: [T, D, N, H], D and H in one record
//   absl::Status status = y.Transpose(symbols, {0, 2, 1, 3});
//   absl::Status status = y.Reshape(symbols, {Size(0), Size(0), Size(-1)}, false);   // [T, N, D*H]
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rnnserve {

// Sizes that each request brings: T, N, or an axis of a graph input that will turn out to be one of them.
class Symbols {
 public:
  static constexpr int kT = 0, kN = 1;
  // T steps, the last one first; N rows in the order of their lengths (pack_padded_sequence): axes of their own, so
  // that nothing joins them with others.
  static constexpr int kBackT = 2, kSortedN = 3;
  Symbols() : parents_{kT, kN, kBackT, kSortedN}, sizes_(4) {}

  // `size`: what the file says it is; requests may bring another.
  int New(std::optional<int64_t> size);
  // Makes them one; false if that made two of T, N, kBackT and kSortedN one.
  bool Unify(int a, int b);
  int Find(int symbol) const;
  std::optional<int64_t> SizeOf(int symbol) const {
    const int root = Find(symbol);
    return sizes_[static_cast<size_t>(root == kBackT ? kT : root == kSortedN ? kN : root)];
  }
  // "T", "N", "T from the end", "N by length" or "?".
  std::string Text(int symbol) const;

 private:
  std::vector<int> parents_;
  std::vector<std::optional<int64_t>> sizes_;
};

// A number in a list of sizes: `factor` times symbols.
struct Size {
  int64_t factor = 1;
  std::vector<int> symbols = {};

  Size() = default;
  explicit Size(int64_t constant) : factor(constant) {}
  bool is_constant() const { return symbols.empty(); }
};
bool Equal(const Symbols& symbols, const Size& a, const Size& b);

// A symbol, or a part of a step's numbers: `size` of them, `stride` numbers apart.
struct Atom {
  int symbol = -1;
  int64_t size = 1;
  int64_t stride = 1;

  bool is_symbol() const { return symbol >= 0; }
};
using LayoutAxis = std::vector<Atom>;  // the slowest first; empty: an axis of size 1

class Layout {
 public:
  Layout() = default;
  explicit Layout(std::vector<LayoutAxis> axes) : axes_(std::move(axes)) {}
  // One axis, which is the symbol's.
  static Layout OfSymbol(int symbol) { return Layout(std::vector<LayoutAxis>{AxisOfSymbol(symbol)}); }
  static LayoutAxis AxisOfSymbol(int symbol) { return {Atom{.symbol = symbol}}; }

  const std::vector<LayoutAxis>& axes() const { return axes_; }
  std::vector<LayoutAxis>& axes() { return axes_; }
  size_t rank() const { return axes_.size(); }

  // Errors continue a sentence that begins with the node.
  absl::Status Transpose(std::optional<std::vector<int64_t>> perm);
  void MoveAxis(size_t from, size_t to);
  // The last axis has become one number, and is at `axis` or gone. Canonical.
  void EndAlong(size_t axis, bool keeps_axis);
  absl::Status Squeeze(const Symbols& symbols, std::optional<std::vector<int64_t>> which);
  absl::Status Unsqueeze(const std::vector<int64_t>& which);
  absl::Status Reshape(const Symbols& symbols, const std::vector<Size>& shape, bool allow_zero);

  // Numbers of a step along the axis; nullopt if it is, or has in it, steps or rows.
  std::optional<int64_t> FeatureSize(size_t axis) const;
  // The axis is exactly this symbol's.
  std::optional<int> SymbolOf(size_t axis) const;
  // Product of all feature sizes.
  int64_t width() const;
  // Whether features lie in the order of the axes.
  bool is_canonical() const;
  // The same axes with features in their order, each axis one atom.
  Layout Canonical() const;
  // Where the numbers of Canonical() lie in this one.
  std::vector<int64_t> Places() const;
  Size SizeOfAxis(size_t axis) const;
  // "[T, N, 10]".
  std::string Text(const Symbols& symbols) const;

 private:
  std::vector<LayoutAxis> axes_;
};

// `axis` of `rank`, counted from the end if negative.
absl::StatusOr<size_t> AxisOf(int64_t axis, size_t rank);
// Each once.
absl::StatusOr<std::set<size_t>> AxesOf(const std::vector<int64_t>& which, size_t rank);
inline constexpr size_t kMaxAxes = 8;

}  // namespace rnnserve
