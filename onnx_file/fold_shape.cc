// SPDX-License-Identifier: Apache-2.0
// Reshape, Squeeze, Unsqueeze: the same elements in other axes; nothing is copied. Shape: the axes.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/fold_call.h"

namespace rnnserve {
namespace {

// The axes given, each once, as flags.
absl::StatusOr<std::array<bool, kMaxRank>> Flags(const std::vector<int64_t>& axes, size_t rank) {
  std::array<bool, kMaxRank> flags = {};
  for (const int64_t given : axes) {
    const absl::StatusOr<size_t> axis = Axis(given, rank);
    if (!axis.ok()) return axis.status();
    if (std::exchange(flags[*axis], true)) return FoldError(absl::StrCat("names axis ", given, " twice"));
  }
  return flags;
}

}  // namespace

absl::StatusOr<OnnxTensor> FoldReshape(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto wanted = call.Ints("shape", 1);
  if (!wanted.ok()) return wanted.status();
  if (!*wanted) return FoldError("has no shape");
  const Shape& from = (*input)->view.shape;
  Shape shape((*wanted)->begin(), (*wanted)->end());
  const auto mismatch = [&] {
    return FoldError(absl::StrCat("makes ", ShortShape(**wanted), " of the shape ", ShortShape(from),
                                  ", which has another number of elements"));
  };
  if (call.Int("allowzero", 0) == 0) {
    for (size_t axis = 0; axis < std::min(shape.size(), from.size()); ++axis) {
      if (shape[axis] == 0) shape[axis] = from[axis];
    }
  }
  const int64_t elements = NumElements(from).value_or(0);
  if (const auto open = std::ranges::find(shape, -1); open != shape.end()) {
    *open = 1;
    const int64_t others = NumElements(shape).value_or(0);
    if (others == 0 || elements % others != 0) return mismatch();
    *open = elements / others;
  }
  if (NumElements(shape) != elements) return mismatch();
  return Reshaped(**input, std::move(shape));
}

absl::StatusOr<OnnxTensor> FoldShape(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const Shape& from = (*input)->view.shape;
  const auto rank = static_cast<int64_t>(from.size());
  const auto place = [&](std::string_view name, int64_t otherwise) {
    const int64_t given = call.Int(name, otherwise);
    return std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank);
  };
  const int64_t first = place("start", 0), count = std::max<int64_t>(place("end", rank) - first, 0);
  absl::StatusOr<NewTensor> made = AllocateTensor(DataType::kInt64, {count}, call.bytes_left);
  if (!made.ok()) return made.status();
  if (count > 0) std::memcpy(made->data, from.data() + first, static_cast<size_t>(count) * sizeof(int64_t));
  return std::move(made->tensor);
}

absl::StatusOr<OnnxTensor> FoldSqueeze(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto axes = call.Ints("axes", 1);
  if (!axes.ok()) return axes.status();
  const Shape& from = (*input)->view.shape;
  std::array<bool, kMaxRank> out = {};
  if (*axes) {
    const auto flags = Flags(**axes, from.size());
    if (!flags.ok()) return flags.status();
    out = *flags;
  } else {
    for (size_t axis = 0; axis < from.size(); ++axis) out[axis] = from[axis] == 1;
  }
  Shape shape;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (!out[axis]) {
      shape.push_back(from[axis]);
    } else if (from[axis] != 1) {
      return FoldError(absl::StrCat("takes axis ", axis, " out of ", ShortShape(from), ", where it is not 1"));
    }
  }
  return Reshaped(**input, std::move(shape));
}

absl::StatusOr<OnnxTensor> FoldUnsqueeze(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto axes = call.Ints("axes", 1);
  if (!axes.ok()) return axes.status();
  if (!*axes) return FoldError("has no axes");
  const Shape& from = (*input)->view.shape;
  const size_t rank = from.size() + (*axes)->size();
  if (rank > kMaxRank) return FoldError(absl::StrCat("gives ", rank, " axes, but at most 8 are supported"));
  const auto added = Flags(**axes, rank);
  if (!added.ok()) return added.status();
  Shape shape;
  auto next = from.begin();
  for (size_t axis = 0; axis < rank; ++axis) shape.push_back((*added)[axis] ? 1 : *next++);
  return Reshaped(**input, std::move(shape));
}

}  // namespace rnnserve
