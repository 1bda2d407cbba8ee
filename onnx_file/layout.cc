// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/layout.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_file/bad_file.h"

namespace rnnserve {
namespace {

std::vector<int> Sorted(const Symbols& symbols, const std::vector<int>& list) {
  std::vector<int> sorted;
  for (const int symbol : list) sorted.push_back(symbols.Find(symbol));
  std::ranges::sort(sorted);
  return sorted;
}

// A row or step that the file says is one may be left out of a product.
Size WithoutOnes(const Symbols& symbols, Size size) {
  std::erase_if(size.symbols, [&](int symbol) { return symbols.SizeOf(symbol) == 1; });
  return size;
}

bool IsOne(const Symbols& symbols, const Size& size) { return Equal(symbols, WithoutOnes(symbols, size), Size(1)); }

// Parts a run of atoms into the axes of a new shape, from either end.
class AtomTaker {
 public:
  AtomTaker(const Symbols& symbols, std::vector<Atom> atoms) : symbols_(symbols), atoms_(std::move(atoms)) {}

  // Atoms that make `size`; nullopt if none do. A row or step that the file says is one goes along with the axis before
  // it, unless that is `followed_by_one`, an axis for it; taken from the back, it stays for an axis of 1 or the rest.
  std::optional<LayoutAxis> Take(const Size& size, bool from_back, bool followed_by_one) {
    from_back_ = from_back;
    taken_.clear();
    Size product;
    std::optional<int64_t> known = 1;  // with the sizes that the file says
    const auto fits = [&] {
      return Equal(symbols_, WithoutOnes(symbols_, product), WithoutOnes(symbols_, size)) ||
             (size.is_constant() && known == size.factor);
    };
    const bool is_of_one = IsOne(symbols_, size);
    while (!atoms_.empty()) {
      const Atom next = Next();
      const std::optional<int64_t> next_size = next.is_symbol() ? symbols_.SizeOf(next.symbol) : next.size;
      const bool takes_one = (is_of_one && taken_.empty()) || !(from_back || followed_by_one);
      if (fits() && !(next_size == 1 && takes_one)) break;
      if (!next.is_symbol() && Split(size, product, known)) continue;
      TakeNext();
      if (next.is_symbol()) {
        product.symbols.push_back(next.symbol);
      } else if (__builtin_mul_overflow(product.factor, next.size, &product.factor)) {
        return std::nullopt;
      }
      if (known && (!next_size || __builtin_mul_overflow(*known, *next_size, &*known))) known.reset();
    }
    return fits() ? std::optional(taken_) : std::nullopt;
  }

  std::vector<Atom> Rest() && { return std::move(atoms_); }
  bool empty() const { return atoms_.empty(); }

 private:
  const Atom& Next() const { return from_back_ ? atoms_.back() : atoms_.front(); }

  void TakeNext() {
    taken_.insert(from_back_ ? taken_.begin() : taken_.end(), Next());
    atoms_.erase(from_back_ ? atoms_.end() - 1 : atoms_.begin());
  }

  // Cuts the next atom in two if only a part of it belongs here.
  bool Split(const Size& size, const Size& product, const std::optional<int64_t>& known) {
    const auto cut = [&](int64_t wanted, int64_t have) {
      if (have <= 0 || wanted % have != 0) return false;
      const int64_t part = wanted / have;
      Atom& atom = from_back_ ? atoms_.back() : atoms_.front();
      if (part <= 1 || part >= atom.size || atom.size % part != 0) return false;
      const int64_t other = atom.size / part;
      const Atom outer = {.size = from_back_ ? other : part, .stride = atom.stride * (from_back_ ? part : other)};
      const Atom inner = {.size = from_back_ ? part : other, .stride = atom.stride};
      const auto at = from_back_ ? atoms_.end() - 1 : atoms_.begin();
      *at = inner;
      atoms_.insert(at, outer);
      return true;
    };
    if (size.is_constant()) return known && cut(size.factor, *known);
    Size without = size;
    without.factor = 1;
    Size ours = product;
    ours.factor = 1;
    return Equal(symbols_, without, ours) && cut(size.factor, product.factor);
  }

  const Symbols& symbols_;
  std::vector<Atom> atoms_;
  LayoutAxis taken_;
  bool from_back_ = false;
};

}  // namespace

int Symbols::New(std::optional<int64_t> size) {
  parents_.push_back(static_cast<int>(parents_.size()));
  sizes_.push_back(size);
  return parents_.back();
}

int Symbols::Find(int symbol) const {
  while (parents_[static_cast<size_t>(symbol)] != symbol) symbol = parents_[static_cast<size_t>(symbol)];
  return symbol;
}

bool Symbols::Unify(int a, int b) {
  int to = Find(a), from = Find(b);
  if (to == from) return true;
  if (from < to) std::swap(to, from);  // T and N stay themselves
  if (from <= kSortedN) return false;
  parents_[static_cast<size_t>(from)] = to;
  std::optional<int64_t>& size = sizes_[static_cast<size_t>(to)];
  if (!size) size = sizes_[static_cast<size_t>(from)];
  return true;
}

std::string Symbols::Text(int symbol) const {
  const int root = Find(symbol);
  return root == kT         ? "T"
         : root == kN       ? "N"
         : root == kBackT   ? "T from the end"
         : root == kSortedN ? "N by length"
                            : "?";
}

bool Equal(const Symbols& symbols, const Size& a, const Size& b) {
  return a.factor == b.factor && a.symbols.size() == b.symbols.size() &&
         Sorted(symbols, a.symbols) == Sorted(symbols, b.symbols);
}

absl::StatusOr<size_t> AxisOf(int64_t axis, size_t rank) {
  const auto bound = static_cast<int64_t>(rank);
  if (axis >= -bound && axis < bound) return static_cast<size_t>(axis < 0 ? axis + bound : axis);
  return BadFile(absl::StrCat("names axis ", axis, " of ", rank));
}

absl::StatusOr<std::set<size_t>> AxesOf(const std::vector<int64_t>& which, size_t rank) {
  std::set<size_t> axes;
  for (const int64_t axis : which) {
    const absl::StatusOr<size_t> place = AxisOf(axis, rank);
    if (!place.ok()) return place.status();
    if (!axes.insert(*place).second) return BadFile(absl::StrCat("names axis ", axis, " twice"));
  }
  return axes;
}

absl::Status Layout::Transpose(std::optional<std::vector<int64_t>> perm) {
  if (!perm) {
    std::ranges::reverse(axes_);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::set<size_t>> all = AxesOf(*perm, axes_.size());
  if (!all.ok()) return all.status();
  if (all->size() != axes_.size()) {
    return BadFile(absl::StrCat("has a perm of ", perm->size(), " axes, but ", axes_.size(), " come"));
  }
  std::vector<LayoutAxis> moved;
  for (const int64_t from : *perm) moved.push_back(axes_[*AxisOf(from, axes_.size())]);
  axes_ = std::move(moved);
  return absl::OkStatus();
}

void Layout::MoveAxis(size_t from, size_t to) {
  LayoutAxis moved = std::move(axes_[from]);
  axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(from));
  axes_.insert(axes_.begin() + static_cast<std::ptrdiff_t>(to), std::move(moved));
}

void Layout::EndAlong(size_t axis, bool keeps_axis) {
  axes_.pop_back();
  if (keeps_axis) axes_.insert(axes_.begin() + static_cast<std::ptrdiff_t>(axis), LayoutAxis{});
  *this = Canonical();
}

absl::Status Layout::Squeeze(const Symbols& symbols, std::optional<std::vector<int64_t>> which) {
  if (!which || which->empty())
    return BadFile("names no axes, so that an axis of one step or one row would go as well");
  const absl::StatusOr<std::set<size_t>> places = AxesOf(*which, axes_.size());
  if (!places.ok()) return places.status();
  std::vector<LayoutAxis> left;
  for (size_t k = 0; k < axes_.size(); ++k) {
    if (!places->contains(k)) {
      left.push_back(axes_[k]);
    } else if (FeatureSize(k) != 1) {
      return BadFile(absl::StrCat("takes axis ", k, " out of ", Text(symbols), ", which is not always 1"));
    }
  }
  axes_ = std::move(left);
  return absl::OkStatus();
}

absl::Status Layout::Unsqueeze(const std::vector<int64_t>& which) {
  const size_t rank = axes_.size() + which.size();
  if (rank > kMaxAxes) return BadFile(absl::StrCat("gives ", rank, " axes"));
  const absl::StatusOr<std::set<size_t>> places = AxesOf(which, rank);
  if (!places.ok()) return places.status();
  if (places->size() != which.size()) return BadFile("names an axis twice");
  std::vector<LayoutAxis> widened;
  for (size_t k = 0, next = 0; k < rank; ++k) widened.push_back(places->contains(k) ? LayoutAxis{} : axes_[next++]);
  axes_ = std::move(widened);
  return absl::OkStatus();
}

absl::Status Layout::Reshape(const Symbols& symbols, const std::vector<Size>& shape, bool allow_zero) {
  if (shape.size() > kMaxAxes) return BadFile(absl::StrCat("gives ", shape.size(), " axes"));
  std::vector<Size> wanted = shape;
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (!wanted[k].is_constant() || wanted[k].factor != 0) continue;
    if (allow_zero || k >= axes_.size()) return BadFile(absl::StrCat("has a shape with 0 as axis ", k));
    wanted[k] = SizeOfAxis(k);
  }
  const auto is_rest = [](const Size& size) { return size.is_constant() && size.factor == -1; };
  const auto rest = static_cast<size_t>(std::ranges::find_if(wanted, is_rest) - wanted.begin());
  std::vector<Atom> atoms;
  for (const LayoutAxis& axis : axes_) {
    for (const Atom& atom : axis) {
      if (atom.is_symbol() || atom.size > 1) atoms.push_back(atom);
    }
  }
  AtomTaker taker(symbols, std::move(atoms));
  std::vector<LayoutAxis> made(wanted.size());
  const auto take = [&](size_t k, bool from_back) {
    const bool followed_by_one =
        k + 1 < wanted.size() && (k + 1 == rest ? rest + 1 < wanted.size() : IsOne(symbols, wanted[k + 1]));
    std::optional<LayoutAxis> axis = taker.Take(wanted[k], from_back, followed_by_one);
    if (!axis) return false;
    made[k] = *std::move(axis);
    return true;
  };
  const auto misfit = [&](size_t k) {
    return BadFile(absl::StrCat("makes another axis ", k, " of ", Text(symbols),
                                " than steps, rows and their numbers "
                                "make (T and N are as many as a request brings)"));
  };
  for (size_t k = 0; k < rest; ++k) {
    if (!take(k, false)) return misfit(k);
  }
  for (size_t k = wanted.size(); k-- > rest + 1;) {
    if (!take(k, true)) return misfit(k);
  }
  if (rest < wanted.size()) {
    made[rest] = std::move(taker).Rest();
  } else if (!taker.empty()) {
    return BadFile(absl::StrCat("has a shape that holds only a part of ", Text(symbols)));
  }
  axes_ = std::move(made);
  return absl::OkStatus();
}

std::optional<int64_t> Layout::FeatureSize(size_t axis) const {
  int64_t size = 1;
  for (const Atom& atom : axes_[axis]) {
    if (atom.is_symbol()) return std::nullopt;
    size *= atom.size;
  }
  return size;
}

std::optional<int> Layout::SymbolOf(size_t axis) const {
  if (axes_[axis].size() != 1 || !axes_[axis][0].is_symbol()) return std::nullopt;
  return axes_[axis][0].symbol;
}

int64_t Layout::width() const {
  int64_t width = 1;
  for (const LayoutAxis& axis : axes_) {
    for (const Atom& atom : axis) width *= atom.size;
  }
  return width;
}

bool Layout::is_canonical() const {
  int64_t stride = 1;
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
    for (auto atom = axis->rbegin(); atom != axis->rend(); ++atom) {
      if (atom->is_symbol() || atom->size == 1) continue;
      if (atom->stride != stride) return false;
      stride *= atom->size;
    }
  }
  return true;
}

Layout Layout::Canonical() const {
  Layout made = *this;
  int64_t stride = 1;
  for (auto axis = made.axes_.rbegin(); axis != made.axes_.rend(); ++axis) {
    LayoutAxis merged;
    for (auto atom = axis->rbegin(); atom != axis->rend(); ++atom) {
      Atom next = *atom;
      if (!next.is_symbol()) {
        if (next.size == 1) continue;
        next.stride = stride;
        stride *= next.size;
        if (!merged.empty() && !merged.front().is_symbol()) {
          merged.front().size *= next.size;
          continue;
        }
      }
      merged.insert(merged.begin(), next);
    }
    *axis = std::move(merged);
  }
  return made;
}

std::vector<int64_t> Layout::Places() const {
  std::vector<int64_t> places = {0};
  for (const LayoutAxis& axis : axes_) {
    for (const Atom& atom : axis) {
      if (atom.is_symbol() || atom.size == 1) continue;
      std::vector<int64_t> more;
      more.reserve(places.size() * static_cast<size_t>(atom.size));
      for (const int64_t place : places) {
        for (int64_t k = 0; k < atom.size; ++k) more.push_back(place + k * atom.stride);
      }
      places = std::move(more);
    }
  }
  return places;
}

Size Layout::SizeOfAxis(size_t axis) const {
  Size size;
  for (const Atom& atom : axes_[axis]) {
    if (atom.is_symbol()) {
      size.symbols.push_back(atom.symbol);
    } else {
      size.factor *= atom.size;
    }
  }
  return size;
}

std::string Layout::Text(const Symbols& symbols) const {
  const auto axis = [&](std::string* out, const LayoutAxis& atoms) {
    const auto name = [&](std::string* text, const Atom& atom) {
      absl::StrAppend(text, atom.is_symbol() ? symbols.Text(atom.symbol) : absl::StrCat(atom.size));
    };
    out->append(atoms.empty() ? "1" : absl::StrJoin(atoms, "*", name));
  };
  return absl::StrCat("[", absl::StrJoin(axes_, ", ", axis), "]");
}

}  // namespace rnnserve
