// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/state_width.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

constexpr size_t kMostHops = 64;  // of a chain of nodes; no exporter's is longer

int64_t IntOf(const onnx::NodeProto& node, const char* name, int64_t otherwise) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? otherwise : attribute->i();
}

class Widths {
 public:
  Widths(Constants& constants, const Scope& scope) : constants_(constants), scope_(&scope) {}

  // The last axis of a state; nullopt: the file does not tell.
  std::optional<int64_t> OfState(std::string name) {
    for (size_t hop = 0; hop < kMostHops; ++hop) {
      if (const absl::StatusOr<OnnxTensor> value = constants_.Value(*scope_, name); value.ok()) {
        const Shape& shape = value->view.shape;
        return shape.empty() ? std::nullopt : std::optional<int64_t>(shape.back());
      }
      const onnx::NodeProto* maker = MakerOf(name);
      if (maker == nullptr) return LastOfInput(name);
      const onnx::NodeProto& by = *maker;
      if (IsOnnxOp(by, "Expand") && by.input_size() > 1) return LastOfSizes(by.input(1));
      if (IsOnnxOp(by, "ConstantOfShape") && by.input_size() > 0) return LastOfSizes(by.input(0));
      if (!KeepsLastAxis(by)) return std::nullopt;
      name = by.input(0);
    }
    return std::nullopt;
  }

 private:
  // The last of a list of sizes, of which others may be those of the rows.
  std::optional<int64_t> LastOfSizes(std::string name) {
    for (size_t hop = 0; hop < kMostHops; ++hop) {
      const absl::StatusOr<OnnxTensor> value = constants_.Value(*scope_, name);
      if (value.ok()) {
        const TensorView& view = value->view;
        const bool is_list = view.type == DataType::kInt64 && view.shape.size() == 1 && view.shape[0] > 0;
        return is_list ? std::optional<int64_t>(IntAt(view, view.shape[0] - 1)) : std::nullopt;
      }
      const onnx::NodeProto* maker = MakerOf(name);
      if (maker == nullptr) return std::nullopt;
      const onnx::NodeProto& by = *maker;
      if (!IsOnnxOp(by, "Concat") || by.input_size() == 0) return std::nullopt;
      name = by.input(by.input_size() - 1);
    }
    return std::nullopt;
  }

  // Of a graph input, if the file fixes it.
  std::optional<int64_t> LastOfInput(const std::string& name) const {
    for (const onnx::ValueInfoProto& input : scope_->graph().input()) {
      const auto& shape = input.type().tensor_type().shape();
      if (input.name() != name || shape.dim_size() == 0) continue;
      const auto& last = shape.dim(shape.dim_size() - 1);
      return last.has_dim_value() && last.dim_value() > 0 ? std::optional(last.dim_value()) : std::nullopt;
    }
    return std::nullopt;
  }

  // The node that gives this value, or null. From then on names are those of its graph.
  const onnx::NodeProto* MakerOf(const std::string& name) {
    const Scope::Definition* definition = scope_->Find(name);
    if (definition == nullptr || definition->node == nullptr) return nullptr;
    scope_ = definition->scope;
    return definition->node;
  }

  // What takes the layers of one state apart by its first axis.
  bool KeepsLastAxis(const onnx::NodeProto& node) {
    constexpr std::array<std::string_view, 2> kPass = {"Identity", "Cast"};
    constexpr std::array<std::string_view, 2> kOfFirst = {"Split", "Gather"};
    if (node.input_size() == 0) return false;
    if (IsOnnxOp(node, kPass)) return true;
    if (IsOnnxOp(node, kOfFirst)) return IntOf(node, "axis", 0) == 0;
    if (!IsOnnxOp(node, "Slice")) return false;
    if (const onnx::AttributeProto* axes = FindAttribute(node, "axes"); axes != nullptr) {
      return axes->ints_size() == 1 && axes->ints(0) == 0;
    }
    if (node.input_size() < 4) return false;
    const absl::StatusOr<OnnxTensor> axes = constants_.Value(*scope_, node.input(3));
    return axes.ok() && axes->view.shape == Shape{1} && axes->view.type == DataType::kInt64 &&
           IntAt(axes->view, 0) == 0;
  }

  Constants& constants_;
  const Scope* scope_;
};

}  // namespace

absl::Status CheckStateWidth(Constants& constants, const Scope& scope, const onnx::NodeProto& node, size_t index) {
  const std::string& name = node.input(static_cast<int>(index));
  const absl::StatusOr<OnnxTensor> r =
      node.input_size() > 2 ? constants.Value(scope, node.input(2)) : absl::NotFoundError("");
  if (!r.ok() || r->view.shape.size() != 3) return absl::OkStatus();  // which is refused as such
  const std::optional<int64_t> width = Widths(constants, scope).OfState(name);
  const int64_t hidden_size = r->view.shape[2];
  if (!width || *width == hidden_size || *width == 1) return absl::OkStatus();
  return BadFile(
      absl::StrCat(InputLabel(index, name), " has ", *width, " numbers a row, but H is ", hidden_size,
                   " by R: the layer has a projection (PyTorch: proj_size), which ONNX's LSTM cannot have; use ",
                   "a Linear layer after it instead"));
}

}  // namespace rnnserve
