// SPDX-License-Identifier: Apache-2.0
// Where the axes of a recurrent node's Y, or of a graph input, are after the nodes that exporters put between layers:
// Transpose, Squeeze, Unsqueeze, Reshape.
//
//   Axes axes = Axes::OfY(2, 5, layout);                       // [T, D, N, H]: [T, 2, N, 5]
//   absl::Status status = axes.Apply(node, ints);              // Transpose 0 2 1 3: [T, N, 2, 5]
//   absl::Status status = axes.Apply(node, ints);              // Reshape 0 0 -1: [T, N, 2*5]
//   if (axes.IsXOf(0)) ...                                     // what the next layer takes
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_file/layout.h"

namespace rnnserve {

// A list of integers that a node takes, as attribute `name` or as input `index`, whichever its opset has: nullopt if
// neither is there, an error if the file does not fix it.
using NodeInts =
    absl::FunctionRef<absl::StatusOr<std::optional<std::vector<int64_t>>>(std::string_view name, size_t index)>;

class Axes {
 public:
  // `hidden_size` 0: not known.
  static Axes OfY(int64_t directions, int64_t hidden_size, int64_t layout);
  // The three axes of X as a request brings it.
  static Axes OfInput();

  // What `node` makes of them. Errors continue a sentence that begins with the node.
  absl::Status Apply(const onnx::NodeProto& node, NodeInts ints);

  // Of OfY(): whether this is [T, N, D*H], or [N, T, D*H] for layout 1.
  bool IsXOf(int64_t layout) const;
  // Of OfInput(): its first two axes have changed places; the last has not.
  bool IsInputTurned() const { return Are(inputs_[1], inputs_[0], inputs_[2]); }
  bool IsInputItself() const { return Are(inputs_[0], inputs_[1], inputs_[2]); }
  // "[T, N, 2*5]".
  std::string Text() const { return layout_.Text(symbols_); }

 private:
  bool Are(int first, int second, int third) const;

  Symbols symbols_;
  Layout layout_;
  LayoutAxis features_;      // D*H of a Y
  std::vector<int> inputs_;  // symbols of OfInput()
};

}  // namespace rnnserve
