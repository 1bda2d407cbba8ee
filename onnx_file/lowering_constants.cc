// SPDX-License-Identifier: Apache-2.0
// Operands that the file fixes: numbers of a step.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"

namespace rnnserve {

// The constant's numbers for each number of the flow, in the flow's own order. `widened`: the flow's layout where the
// constant has more axes.
absl::StatusOr<MapNumbersPtr> Lowering::Spread(const Flow& flow, const OnnxTensor& constant, Layout& widened) {
  Shape shape = constant.view.shape;
  widened = flow.layout;
  while (widened.rank() < shape.size() && shape[0] == 1) shape.erase(shape.begin());
  const size_t skipped = constant.view.shape.size() - shape.size();
  if (widened.rank() < shape.size()) {
    return BadFile(
        absl::StrCat("computes with ", ShortShape(shape), " of more axes than ", flow.layout.Text(symbols_)));
  }
  const absl::StatusOr<std::vector<double>> values = Doubles(constant, "constant");
  if (!values.ok()) return values.status();
  // Where in the constant the number at each place of the flow lies.
  std::vector<int64_t> places = {0}, sources = {0};
  const size_t missing = widened.rank() - shape.size();
  int64_t stride = 1;
  std::vector<int64_t> strides(shape.size());
  for (size_t k = shape.size(); k-- > 0; stride *= shape[k]) strides[k] = stride;
  for (size_t axis = 0; axis < widened.rank(); ++axis) {
    const int64_t dim = axis < missing ? 1 : shape[axis - missing];
    if (dim != 1 && dim != FeatureSize(widened, axis)) {
      return BadFile(absl::StrCat("computes with ", ShortShape(constant.view.shape),
                                  ", which has other numbers for "
                                  "different steps or rows, or does not fit ",
                                  flow.layout.Text(symbols_)));
    }
    const int64_t step = dim == 1 ? 0 : strides[axis - missing];
    const std::vector<int64_t> own = Layout({widened.axes()[axis]}).Places();
    std::vector<int64_t> more_places, more_sources;
    for (size_t k = 0; k < places.size(); ++k) {
      for (size_t j = 0; j < own.size(); ++j) {
        more_places.push_back(places[k] + own[j]);
        more_sources.push_back(sources[k] + static_cast<int64_t>(j) * step);
      }
    }
    places = std::move(more_places);
    sources = std::move(more_sources);
  }
  std::vector<double> spread(places.size());
  made_bytes_ += static_cast<int64_t>(places.size() * sizeof(double));
  for (size_t k = 0; k < places.size(); ++k) {
    spread[static_cast<size_t>(places[k])] = (*values)[static_cast<size_t>(sources[k])];
  }
  for (size_t k = 0; k < skipped; ++k) widened.axes().insert(widened.axes().begin(), LayoutAxis{});
  return Numbers(spread);
}

absl::StatusOr<Flow> Lowering::Widened(const Flow& flow, const OnnxTensor& constant) {
  absl::StatusOr<Flow> made = flow;
  const Shape& shape = constant.view.shape;
  const size_t rank = flow.layout.rank();
  for (size_t axis = rank - std::min(rank, shape.size()); made.ok() && axis < rank; ++axis) {
    const int64_t dim = shape[axis + shape.size() - rank];
    if (dim < 2 || made->layout.FeatureSize(axis) != 1) continue;
    made = SelectOfAxis(*made, axis, std::vector<int64_t>(static_cast<size_t>(dim), 0));
  }
  return made;
}

// Where the file fixes how many steps or rows there are and has the same numbers for each of them (torch:
// zeros_like(y)), those of one.
OnnxTensor Lowering::OfOneStep(const Flow& flow, OnnxTensor constant) const {
  const size_t rank = flow.layout.rank(), own = constant.view.shape.size();
  for (size_t axis = rank - std::min(rank, own); axis < rank; ++axis) {
    const Shape& shape = constant.view.shape;
    const size_t place = axis + own - rank;
    const std::optional<int> symbol = flow.layout.SymbolOf(axis);
    if (shape[place] < 2 || !symbol || symbols_.SizeOf(*symbol) != shape[place] || constant.view.data.empty()) continue;
    size_t outer = 1;
    for (size_t k = 0; k < place; ++k) outer *= static_cast<size_t>(shape[k]);
    const auto count = static_cast<size_t>(shape[place]);
    const size_t bytes = constant.view.data.size() / outer / count;
    auto first = std::make_shared<std::vector<std::byte>>();
    bool are_same = true;
    for (size_t k = 0; k < outer && are_same; ++k) {
      const auto all = constant.view.data.subspan(k * count * bytes, count * bytes);
      are_same = std::ranges::equal(all.first(all.size() - bytes), all.subspan(bytes));
      first->insert(first->end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
    if (!are_same) continue;
    constant.view.shape[place] = 1;
    constant.view.data = *first;
    constant.storage = std::move(first);
  }
  return constant;
}

Lowering::Result Lowering::WithConstant(const Call&, const Flow& narrow, const OnnxTensor& given, MapFunction function,
                                        bool reversed) {
  const OnnxTensor constant = OfOneStep(narrow, given);
  const absl::StatusOr<Flow> widened = Widened(narrow, constant);
  if (!widened.ok()) return widened.status();
  const Flow& flow = *widened;
  Flow made = flow;
  const absl::StatusOr<MapNumbersPtr> numbers = Spread(flow, constant, made.layout);
  if (!numbers.ok()) return numbers.status();
  absl::StatusOr<Flow> result =
      Unary(flow, {.kind = MapOpKind::kConstant, .function = function, .a = *numbers, .reversed = reversed});
  if (!result.ok()) return result.status();
  result->layout = std::move(made.layout);
  return *std::move(result);
}

Lowering::Result Lowering::WithNumber(const Call& call, const absl::StatusOr<Flow>& flow, MapFunction function,
                                      double value, bool reversed) {
  if (!flow.ok()) return flow.status();
  OnnxTensor constant;
  constant.view = {DataType::kDouble, {}, std::as_bytes(std::span(&value, 1))};
  return WithConstant(call, *flow, constant, function, reversed);
}

}  // namespace rnnserve
