// SPDX-License-Identifier: Apache-2.0
// Where the axes of a recurrent node's Y are after the nodes that exporters put between layers: Transpose, Squeeze,
// Unsqueeze, Reshape.
//
//   Axes axes = Axes::OfY(directions, hidden_size, layout);    // [T, D, N, H]
//   absl::Status status = axes.Apply(node, ints);              // Transpose 0 2 1 3: [T, N, D, H]
//   absl::Status status = axes.Apply(node, ints);              // Reshape 0 0 -1: [T, N, D*H]
//   if (axes.IsXOf(0)) ...                                     // what the next layer takes
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rnnserve {

// A list of integers that a node takes, as attribute `name` or as input `index`, whichever its opset has: nullopt if
// neither is there, an error if the file does not fix it.
using NodeInts =
    absl::FunctionRef<absl::StatusOr<std::optional<std::vector<int64_t>>>(std::string_view name, size_t index)>;

class Axes {
 public:
  // `hidden_size` 0: not known.
  static Axes OfY(int64_t directions, int64_t hidden_size, int64_t layout);
  // [A, B, C], the axes of X as a request brings it.
  static Axes OfInput();

  // What `node` makes of them. Errors continue a sentence that begins with the node.
  absl::Status Apply(const onnx::NodeProto& node, NodeInts ints);

  // Whether this is [T, N, D*H], or [N, T, D*H] for layout 1.
  bool IsXOf(int64_t layout) const;
  // Of OfInput(): its first two axes have changed places; the last has not.
  bool IsInputTurned() const;
  bool IsInputItself() const;
  // "[T, N, D*H]".
  std::string Text() const;

 private:
  // What an axis of the tensor is made of, the slowest first; empty: size 1. Sizes of T and N are not known.
  struct Atom {
    char name;
    std::optional<int64_t> size;
    bool operator==(const Atom&) const = default;
  };
  using Axis = std::vector<Atom>;

  absl::Status Transpose(std::optional<std::vector<int64_t>> perm);
  absl::Status Squeeze(std::optional<std::vector<int64_t>> which);
  absl::Status Unsqueeze(std::optional<std::vector<int64_t>> which);
  absl::Status Reshape(std::optional<std::vector<int64_t>> shape);
  // The target axis of `size` at the place `index`, taken off the front (or back) of `atoms`.
  absl::StatusOr<Axis> Take(int64_t size, size_t index, bool from_back, std::vector<Atom>& atoms) const;
  bool Is(std::string_view axes) const;

  std::vector<Axis> axes_;
};

}  // namespace rnnserve
