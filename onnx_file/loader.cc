// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/loader.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/constants.h"
#include "onnx_file/graph.h"
#include "onnx_file/node.h"
#include "onnx_file/parse.h"
#include "onnx_file/tensor.h"

namespace rnnserve {
namespace {

absl::Status Bad(const std::string& text) { return absl::FailedPreconditionError(text); }

bool AllZero(std::span<const std::byte> data) {
  return std::ranges::all_of(data, [](std::byte byte) { return byte == std::byte{0}; });
}

// A weight, which Constants has read.
absl::Status AddWeight(size_t index, OnnxGraph::Source source, OnnxOperator& loaded) {
  if (absl::Status floating = CheckFloating(source.value->view.type); !floating.ok()) {
    return Bad(absl::StrCat(InputLabel(index, source.name), " ", floating.message()));
  }
  const std::string_view name = RecurrentInputs(loaded.op.op_type)[index];
  loaded.weights.push_back({std::string(name), std::move(source.value->view)});
  if (source.value->storage != nullptr) loaded.storage.push_back(std::move(source.value->storage));
  return absl::OkStatus();
}

// An input that each request brings.
absl::Status CheckData(size_t index, const OnnxGraph::Source& source) {
  if (!source.value) return absl::OkStatus();  // a graph input, or zeros
  const std::string label = InputLabel(index, source.name);
  if (!IsStateInput(index)) {
    return Bad(absl::StrCat(label, " is fixed in the file; it comes with each request, so make it a graph input",
                            index == 0 ? "" : " or leave it out"));
  }
  if (absl::Status floating = CheckFloating(source.value->view.type); !floating.ok()) {
    return Bad(absl::StrCat(label, " ", floating.message()));
  }
  if (AllZero(source.value->view.data)) return absl::OkStatus();
  return Bad(
      absl::StrCat(label, " is fixed in the file and not zero; make it a graph input and send it with each request"));
}

absl::Status AddInputs(const OnnxGraph& graph, Constants& constants, OnnxOperator& loaded) {
  const std::span<const std::string_view> names = RecurrentInputs(graph.node().op_type());
  if (static_cast<size_t>(graph.node().input_size()) > names.size()) {
    return Bad(absl::StrCat("the ", graph.node().op_type(), " node has ", graph.node().input_size(),
                            " inputs, but the operator has ", names.size()));
  }
  std::unordered_map<std::string, size_t> fed;  // graph input -> the node's input
  for (size_t index = 0; index < names.size(); ++index) {
    absl::StatusOr<OnnxGraph::Source> source = graph.Input(static_cast<int>(index), constants);
    if (!source.ok()) return source.status();
    if (source->name.empty()) {
      if (index == 0) return Bad(absl::StrCat("the ", graph.node().op_type(), " node has no input X (input 0)"));
      continue;
    }
    const bool is_request_input = !source->value && !source->zeros;
    if (is_request_input) {
      if (const auto [other, first] = fed.emplace(source->name, index); !first) {
        return Bad(absl::StrCat("graph input ", Quoted(source->name), " is both ", Abseil(names[other->second]),
                                " and ", Abseil(names[index]), "; requests send them apart"));
      }
    }
    const absl::Status taken =
        IsWeightInput(index) ? AddWeight(index, *std::move(source), loaded) : CheckData(index, *source);
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OnnxOperator> LoadOnnx(const Folder& folder, const OnnxLimits& limits, const std::string& name) {
  const auto model = ParseOnnx(folder, name, limits.file_bytes);
  if (!model.ok()) return model.status();
  const absl::StatusOr<OnnxGraph> graph = OnnxGraph::Create((*model)->graph());
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<int64_t> opset = OpsetOf(**model);
  if (!opset.ok()) return opset.status();
  absl::StatusOr<OperatorDef> op = OperatorOf(graph->node(), *opset);
  if (!op.ok()) return op.status();

  OnnxOperator loaded;
  loaded.op = *std::move(op);
  loaded.storage.push_back(*model);
  Constants constants(folder, limits.tensor_bytes);
  if (absl::Status added = AddInputs(*graph, constants, loaded); !added.ok()) return added;
  return loaded;
}

}  // namespace rnnserve
