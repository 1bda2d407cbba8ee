// SPDX-License-Identifier: Apache-2.0
// What the foldable operators share: their inputs, their lists of axes and sizes, room for the result. Private to
// fold*.cc, and to graph_inputs.cc for its lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_file/fold.h"

namespace rnnserve {

inline constexpr size_t kMaxRank = 8;  // of tensors in files

struct FoldCall {
  const onnx::NodeProto& node;
  std::span<const OnnxTensor* const> inputs;
  int64_t& bytes_left;

  // Input `index`, which the operator requires.
  absl::StatusOr<const OnnxTensor*> Input(size_t index) const;
  // An attribute, or `otherwise` if it is absent.
  int64_t Int(std::string_view name, int64_t otherwise) const;
  // A list of axes, starts, sizes: the attribute `name` (old opsets), or else input `index`; nullopt if neither is
  // there. At most kMaxRank integers.
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(std::string_view name, size_t index,
                                                           size_t most = kMaxRank) const;
};

// Element `index` of a tensor of integers.
int64_t IntAt(const TensorView& tensor, int64_t index);

// Memory for a tensor to be filled in.
struct NewTensor {
  OnnxTensor tensor;
  std::byte* data = nullptr;
};
// Refuses what is too large before it is allocated.
absl::StatusOr<NewTensor> AllocateTensor(DataType type, Shape shape, int64_t& bytes_left);

// `axis` of a tensor of `rank`, counted from the end if negative.
absl::StatusOr<size_t> Axis(int64_t axis, size_t rank);

// The same elements as `tensor` in another shape.
OnnxTensor Reshaped(const OnnxTensor& tensor, Shape shape);

absl::Status FoldError(const std::string& text);

// The shape that both spread to, as arithmetic does.
absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b);
// The tensor spread to a shape that it can be spread to; shares its storage where that is its own.
absl::StatusOr<OnnxTensor> Broadcast(const OnnxTensor& tensor, const Shape& shape, int64_t& bytes_left);
// `perm` is an order of its axes.
absl::StatusOr<OnnxTensor> Permuted(const OnnxTensor& tensor, const std::vector<int64_t>& perm, int64_t& bytes_left);

absl::StatusOr<OnnxTensor> FoldReshape(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldSqueeze(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldUnsqueeze(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldTranspose(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldSlice(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldConcat(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldGather(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldExpand(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldConstantOfShape(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldShape(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldFunction(const FoldCall& call);    // of one tensor
absl::StatusOr<OnnxTensor> FoldArithmetic(const FoldCall& call);  // of two
absl::StatusOr<OnnxTensor> FoldReduce(const FoldCall& call);
absl::StatusOr<OnnxTensor> FoldDequantize(const FoldCall& call);

}  // namespace rnnserve
