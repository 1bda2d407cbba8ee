// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/inspect/report.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/rnnctl/attributes.h"
#include "client/rnnctl/show.h"
#include "onnx_file/stages.h"

namespace rnnserve::rnnctl::inspect {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kMostReasons = 8;  // shown; JSON has them all

std::string VersionName(const InspectedNode& node) {
  return node.spec ? absl::StrCat(node.op.op_type, "-", node.spec->version) : node.op.op_type;
}

// What ONNX fills in, in the words of the attribute.
AttributeValue Default(const InspectedNode& node, const std::string& name) {
  if (name == "direction") return std::string("forward");
  if (name == "activations") {
    std::vector<std::string> functions = {"Tanh"};
    if (node.op.op_type == "GRU") functions = {"Sigmoid", "Tanh"};
    if (node.op.op_type == "LSTM") functions = {"Sigmoid", "Tanh", "Tanh"};
    const std::vector<std::string> one = functions;
    for (int64_t d = 1; node.spec && d < node.spec->directions(); ++d) {
      functions.insert(functions.end(), one.begin(), one.end());
    }
    return functions;
  }
  if (name == "activation_alpha" || name == "activation_beta") return std::vector<float>();
  return int64_t{0};  // input_forget, layout, linear_before_reset, output_sequence; clip has none
}

std::string InShell(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+:@,").find(c) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string quoted = "'";
  for (const char c : word) absl::StrAppend(&quoted, c == '\'' ? "'\\''" : std::string(1, c));
  return quoted + "'";
}

void AddDetails(const std::string& path, const OnnxInspection& file, const InspectedNode& node, Rows& rows) {
  const auto add = [&rows](std::string what, std::string text) {
    rows.push_back({"", std::move(what), std::move(text)});
  };
  if (!node.path.empty()) add("lies in", absl::StrJoin(node.path, " > "));
  if (const auto unusual = UnusualAttributes(node); !unusual.empty()) add("attributes", absl::StrJoin(unusual, " "));
  if (!node.computed_weights.empty()) {
    add("weights", absl::StrCat(absl::StrJoin(node.computed_weights, ", "), " computed here from constants"));
  }
  for (const InspectedInput& input : node.inputs) add(input.name, input.source);
  if (!node.status.ok()) {
    add("cannot load", std::string(node.status.message()));
    return;
  }
  for (const std::string& warning : node.spec->warnings) add("mind", warning);
  for (const InspectedInput& input : node.inputs) {
    if (!input.remark.empty()) add("mind", input.remark);
  }
  if (!file.loads.ok()) {
    add("to load it", absl::StrCat("rnnctl extract ", InShell(path), " --node ", InShell(NodeKey(file, node)),
                                   " -o FOLDER/NAME/1/model.onnx"));
  }
}

void AddTensors(std::string_view title, const std::vector<TensorSignature>& tensors, Rows& rows) {
  for (const TensorSignature& tensor : tensors) {
    rows.push_back({std::string(title), tensor.name, std::string(DataTypeName(tensor.type)),
                    absl::StrCat("[", absl::StrJoin(DimensionTexts(tensor.shape), ", "), "]"),
                    tensor.optional && title == "input" ? "optional" : ""});
  }
}

}  // namespace

std::vector<std::string> DimensionTexts(const Shape& shape) {
  std::vector<std::string> texts;
  for (const int64_t axis : shape) texts.push_back(axis == kDimT ? "T" : axis == kDimN ? "N" : absl::StrCat(axis));
  return texts;
}

std::string DirectionName(const OpSpec& spec) {
  constexpr std::string_view kDirections[] = {"forward", "reverse", "bidirectional"};
  return std::string(kDirections[static_cast<size_t>(spec.direction)]);
}

std::string Verdict(const OnnxInspection& file, const InspectedNode& node) {
  if (!node.status.ok()) return "no";
  return file.loads.ok() ? "yes" : "extract";
}

std::string NodeKey(const OnnxInspection& file, const InspectedNode& node) {
  const auto same = std::ranges::count(file.nodes, node.name, &InspectedNode::name);
  const bool looks_like_number = node.name.find_first_not_of("0123456789") == std::string::npos;
  return same > 1 || looks_like_number ? absl::StrCat(node.number) : node.name;
}

int64_t WeightBytes(const InspectedNode& node) {
  int64_t bytes = 0;
  for (const NamedTensor& weight : node.weights) bytes += static_cast<int64_t>(weight.tensor.data.size());
  return bytes;
}

int64_t StateBytes(const OpSpec& spec) {
  const auto element = static_cast<int64_t>(ByteSize(ComputeType(spec.data_type)));
  return spec.directions() * spec.hidden_size * element * (spec.kind == CellKind::kLstm ? 2 : 1);
}

std::vector<std::string> UnusualAttributes(const InspectedNode& node) {
  std::vector<std::string> unusual;
  for (const auto& [name, value] : node.op.attributes) {
    if (name == "hidden_size" || value == Default(node, name)) continue;
    unusual.push_back(absl::StrCat(name, "=", AttributeText(value)));
  }
  return unusual;
}

std::string ShowInTheWay(const OnnxSplit& split) {
  std::string text;
  for (size_t k = 0; k < split.in_the_way.size(); ++k) {
    if (k == kMostReasons) {
      absl::StrAppend(&text, "... and ", split.in_the_way.size() - k, " more (--json shows all)\n");
      break;
    }
    absl::StrAppend(&text, "in the way: ", split.in_the_way[k], "\n");
  }
  return text;
}

std::string ShowReport(const std::string& path, const OnnxInspection& file, const OnnxSplit* split) {
  std::string text = absl::StrCat(path, ": ", file.file_bytes, " bytes, opset ", file.opset, ", ", file.node_count,
                                  " nodes, ", file.nodes.size(), " of them recurrent",
                                  file.producer.empty() ? "" : absl::StrCat(", written by ", file.producer), "\n");
  if (split != nullptr && !split->in_the_way.empty()) {
    absl::StrAppend(&text, "as it is: no model\n", ShowInTheWay(*split), "in parts: rnnctl split ", InShell(path),
                    " leaves these to onnxruntime\n");
  } else {
    absl::StrAppend(&text, "as it is: ", file.loads.ok() ? "a model" : absl::StrCat("no model; ", file.loads.message()),
                    "\n");
  }
  if (file.loads.ok()) {
    Rows tensors = {{}};
    AddTensors("input", file.inputs, tensors);
    AddTensors("output", file.outputs, tensors);
    absl::StrAppend(&text, FormatTable(tensors));
  }
  if (const std::vector<Stage> stages = StagesOf(file); !stages.empty()) {
    Rows table = {{"STAGE", "RUNS", "BYTES", "WORK A STEP", "WHAT"}};
    for (const Stage& stage : stages) {
      table.push_back({absl::StrCat(table.size()), stage.kind, absl::StrCat(stage.bytes), absl::StrCat(stage.step_work),
                       stage.what});
    }
    absl::StrAppend(&text, "\n", FormatTable(table));
  }
  if (file.nodes.empty()) return Printable(text);
  Rows table = {{"#", "OPERATOR", "I", "H", "DIRECTION", "TYPE", "WEIGHTS", "STATE", "LOADS", "NODE"}};
  for (const InspectedNode& node : file.nodes) {
    std::vector<std::string> row = {absl::StrCat(node.number), VersionName(node)};
    if (node.spec) {
      row.insert(row.end(), {absl::StrCat(node.spec->input_size), absl::StrCat(node.spec->hidden_size),
                             DirectionName(*node.spec), std::string(DataTypeName(node.spec->data_type)),
                             absl::StrCat(WeightBytes(node)), absl::StrCat(StateBytes(*node.spec))});
    } else {
      row.insert(row.end(), 6, "-");
    }
    row.insert(row.end(), {Verdict(file, node), node.name});
    table.push_back(std::move(row));
  }
  absl::StrAppend(&text, "\n", FormatTable(table));
  Rows details;
  for (const InspectedNode& node : file.nodes) {
    details.push_back({});
    details.push_back({absl::StrCat(node.number), VersionName(node), node.name});
    AddDetails(path, file, node, details);
  }
  return Printable(absl::StrCat(text, FormatTable(details)));
}

}  // namespace rnnserve::rnnctl::inspect
