// SPDX-License-Identifier: Apache-2.0
// InstanceNormalization and GroupNormalization: of channels, or groups of them, with all that lies behind axis 1. A
// model may have them where those are numbers of one step.
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {

Lowering::Result Lowering::GroupedNormalization(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (!Has(call, 1) || !Has(call, 2)) return BadFile("has no scale or no bias");
  const size_t rank = flow->layout.rank();
  int64_t inner = 1;  // of a channel
  for (size_t axis = 1; axis < rank; ++axis) {
    const std::optional<int64_t> size = FeatureSize(flow->layout, axis);
    if (!size) {
      return BadFile(absl::StrCat("normalises along axis ", axis, " of ", flow->layout.Text(symbols_),
                                  ", which are steps or rows: it looks along time (PyTorch: nn.LayerNorm normalises "
                                  "each step by itself)"));
    }
    if (axis > 1) inner *= *size;
  }
  if (rank < 2) return BadFile(absl::StrCat("normalises ", flow->layout.Text(symbols_)));
  const int64_t channels = flow->layout.FeatureSize(1).value_or(1);
  const int64_t groups = IsOnnxOp(call.node, "InstanceNormalization") ? channels : IntOf(call, "num_groups", 0);
  if (groups < 1 || channels % groups != 0) return BadFile(absl::StrCat("makes ", groups, " groups of ", channels));
  flow = flows_.Canonical(*flow);  // each group lies together
  if (!flow.ok()) return flow.status();
  MapOp op = {.kind = MapOpKind::kNormalize, .inner = channels / groups * inner};
  op.alpha = FloatOf(call, "epsilon", 1e-5F);
  const absl::StatusOr<MapNumbersPtr> ones = Numbers(std::vector<double>(static_cast<size_t>(op.inner), 1));
  if (!ones.ok()) return ones.status();
  op.a = *ones;
  absl::StatusOr<Flow> normed = Unary(*flow, std::move(op));
  if (!normed.ok()) return normed.status();
  Result made = *std::move(normed);
  for (const size_t index : {size_t{1}, size_t{2}}) {
    const absl::StatusOr<OnnxTensor> value = Value(call, index);
    if (!value.ok()) return value.status();
    absl::StatusOr<std::vector<double>> given = Doubles(*value, "scale and bias");
    if (!given.ok()) return given.status();
    const auto count = static_cast<int64_t>(given->size());  // of each channel, or before opset 21 of each group
    if (count != channels && count != groups) return BadFile("has a scale or bias of another size");
    std::vector<double> numbers;
    for (int64_t k = 0; k < channels; ++k) numbers.push_back((*given)[static_cast<size_t>(k * count / channels)]);
    OnnxTensor tensor;
    tensor.view = {DataType::kDouble, Shape(rank - 1, 1), std::as_bytes(std::span(numbers))};
    tensor.view.shape[0] = channels;
    made = WithConstant(call, std::get<Flow>(*made), tensor, index == 1 ? MapFunction::kMultiply : MapFunction::kAdd,
                        false);
    if (!made.ok()) return made;
  }
  return made;
}

}  // namespace rnnserve
