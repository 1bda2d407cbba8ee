// SPDX-License-Identifier: Apache-2.0
// MakeCells: the weights of each direction, widened, in ONNX block order.
//
//              W, R rows     B, ONNX                     B, OpenVINO
//   LSTM       i o f c       Wb(i o f c) Rb(i o f c)     f i c o (rows of W and R as well); the sum, so Rb = 0
//   GRU        z r h         Wb(z r h) Rb(z r h)         z r h; with linear_before_reset z r Wbh Rbh
//   RNN        one           Wb Rb                       one
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "engine/float16.h"
#include "engine/op/op_spec.h"
#include "engine/op/tensor_check.h"

namespace rnnserve {
namespace {

template <typename T>
constexpr DataType kTypeOf = DataType::kFloat;
template <>
constexpr DataType kTypeOf<double> = DataType::kDouble;

// Elements [first, first + count) of a tensor.
template <typename T>
void Append(const TensorView& tensor, int64_t first, int64_t count, std::vector<T>& target) {
  const size_t old_size = target.size();
  target.resize(old_size + static_cast<size_t>(count));
  const size_t element = ByteSize(tensor.type);
  if (count == 0) return;
  ConvertElements(tensor.type, tensor.data.data() + static_cast<size_t>(first) * element, kTypeOf<T>,
                  reinterpret_cast<std::byte*>(target.data() + old_size), static_cast<size_t>(count));
}

// The source block of each ONNX block.
std::vector<int64_t> BlockOrder(const OpSpec& spec) {
  if (spec.dialect == Dialect::kOpenVino && spec.kind == CellKind::kLstm) return {1, 3, 0, 2};
  std::vector<int64_t> order(static_cast<size_t>(GateCount(spec.kind)));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

// Blocks of `block` elements; direction `d` begins at its own share of the tensor.
template <typename T>
void AppendBlocks(const TensorView& tensor, int64_t d, int64_t blocks_per_direction, int64_t block,
                  std::span<const int64_t> order, std::vector<T>& target) {
  for (int64_t k : order) Append(tensor, (d * blocks_per_direction + k) * block, block, target);
}

template <typename T>
void ReadBias(const OpSpec& spec, const TensorView* b, int64_t d, CellWeights<T>& out) {
  const int64_t h = spec.hidden_size;
  const int64_t gates = GateCount(spec.kind);
  const auto size = static_cast<size_t>(gates * h);
  if (b == nullptr) {
    out.wb.assign(size, T{0});
    out.rb.assign(size, T{0});
    return;
  }
  if (spec.dialect == Dialect::kOnnx) {
    Append(*b, d * 2 * gates * h, gates * h, out.wb);
    Append(*b, (d * 2 + 1) * gates * h, gates * h, out.rb);
    return;
  }
  const bool four_part = spec.kind == CellKind::kGru && spec.linear_before_reset;
  const int64_t blocks = four_part ? 4 : gates;
  AppendBlocks(*b, d, blocks, h, BlockOrder(spec), out.wb);
  out.rb.assign(size - (four_part ? static_cast<size_t>(h) : 0), T{0});
  if (four_part) Append(*b, (d * blocks + 3) * h, h, out.rb);
}

template <typename T>
CellPtr MakeCell(const OpSpec& spec, const CellSpec& cell, std::span<const NamedTensor> weights, int64_t d) {
  const int64_t h = spec.hidden_size;
  const int64_t gates = GateCount(spec.kind);
  const std::vector<int64_t> order = BlockOrder(spec);
  CellWeights<T> out;
  AppendBlocks(FindInput(weights, "W")->tensor, d, gates, h * spec.input_size, order, out.w);
  AppendBlocks(FindInput(weights, "R")->tensor, d, gates, h * h, order, out.r);
  const NamedTensor* b = FindInput(weights, "B");
  ReadBias(spec, b == nullptr ? nullptr : &b->tensor, d, out);
  if (spec.has_peephole) Append(FindInput(weights, "P")->tensor, d * 3 * h, 3 * h, out.p);
  return std::make_shared<const Cell>(cell, std::move(out));
}

}  // namespace

std::vector<CellSpec> CellSpecs(const OpSpec& spec, const RunOptions& options) {
  CellSpec cell;
  cell.kind = spec.kind;
  cell.data_type = spec.data_type;
  cell.input_size = spec.input_size;
  cell.hidden_size = spec.hidden_size;
  cell.clip = spec.clip;
  cell.clip_cell_input = spec.dialect == Dialect::kOnnx && spec.kind == CellKind::kLstm && std::isfinite(spec.clip) &&
                         options.clip_cell_input;
  cell.input_forget = spec.input_forget;
  cell.linear_before_reset = spec.linear_before_reset;
  cell.has_peephole = spec.has_peephole;
  std::vector<CellSpec> cells(static_cast<size_t>(spec.directions()), cell);
  for (size_t d = 0; d < cells.size(); ++d) cells[d].activations = spec.activations[d];
  return cells;
}

absl::StatusOr<std::vector<CellPtr>> MakeCells(const OpSpec& spec, std::span<const NamedTensor> weights,
                                               const RunOptions& options) {
  for (const auto& [name, needed] :
       {std::pair("W", true), std::pair("R", true), std::pair("B", spec.has_bias), std::pair("P", spec.has_peephole)}) {
    if (needed && FindInput(weights, name) == nullptr) {
      return absl::InternalError(std::string("MakeCells: weights without ") + name);
    }
  }
  const std::vector<CellSpec> specs = CellSpecs(spec, options);
  std::vector<CellPtr> cells;
  for (size_t d = 0; d < specs.size(); ++d) {
    const auto direction = static_cast<int64_t>(d);
    cells.push_back(ComputeType(spec.data_type) == DataType::kDouble
                        ? MakeCell<double>(spec, specs[d], weights, direction)
                        : MakeCell<float>(spec, specs[d], weights, direction));
  }
  return cells;
}

}  // namespace rnnserve
