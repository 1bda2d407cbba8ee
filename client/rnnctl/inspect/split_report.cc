// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/inspect/split_report.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/rnnctl/inspect/report.h"
#include "client/rnnctl/show.h"

namespace rnnserve::rnnctl::inspect {
namespace {

bool IsServed(const SplitPart& part) { return part.name == "served"; }

void AddTensors(const SplitPart& part, std::string_view title, const std::vector<SplitTensor>& tensors,
                std::vector<std::vector<std::string>>& rows) {
  const char* way = title == "input" ? "from " : "to ";
  for (const SplitTensor& tensor : tensors) {
    rows.push_back({part.name, std::string(title), tensor.name, tensor.type, tensor.shape.empty() ? "?" : tensor.shape,
                    absl::StrCat(way, absl::StrJoin(tensor.ends, ", "))});
  }
}

nlohmann::ordered_json TensorsJson(const std::vector<SplitTensor>& tensors, const char* way) {
  auto list = nlohmann::ordered_json::array();
  for (const SplitTensor& tensor : tensors) {
    list.push_back({{"name", tensor.name}, {"data_type", tensor.type}, {"shape", tensor.shape}, {way, tensor.ends}});
  }
  return list;
}

}  // namespace

std::string FileOf(const SplitPart& part) { return part.name + ".onnx"; }

std::string ShowSplit(const std::string& folder, const OnnxSplit& split) {
  std::vector<std::vector<std::string>> files = {{"FILE", "NODES", "BYTES", "RUNS IN"}};
  std::vector<std::vector<std::string>> tensors = {{"PART", "", "TENSOR", "TYPE", "SHAPE", ""}};
  for (const SplitPart& part : split.parts) {
    files.push_back({absl::StrCat(folder, "/", FileOf(part)), absl::StrCat(part.nodes), absl::StrCat(part.bytes.size()),
                     IsServed(part) ? "rnnserve" : "onnxruntime"});
    AddTensors(part, "input", part.inputs, tensors);
    AddTensors(part, "output", part.outputs, tensors);
  }
  std::string text = absl::StrCat(FormatTable(files), "\n", FormatTable(tensors), "\n");
  if (split.parts.size() == 1) absl::StrAppend(&text, "nothing is in the way: a server takes the file as it is\n");
  for (const std::string& branch : split.assumptions) absl::StrAppend(&text, "taken for granted: ", branch, "\n");
  absl::StrAppend(&text, ShowInTheWay(split));
  absl::StrAppend(&text, "to serve it: rnnctl models load NAME ", folder, "/served.onnx\n");
  return Printable(text);
}

std::string SplitJson(const std::string& folder, const OnnxSplit& split) {
  nlohmann::ordered_json json = {{"parts", nlohmann::ordered_json::array()}};
  for (const SplitPart& part : split.parts) {
    json["parts"].push_back({{"name", part.name},
                             {"path", absl::StrCat(folder, "/", FileOf(part))},
                             {"runs_in", IsServed(part) ? "rnnserve" : "onnxruntime"},
                             {"bytes", part.bytes.size()},
                             {"nodes", part.nodes},
                             {"inputs", TensorsJson(part.inputs, "from")},
                             {"outputs", TensorsJson(part.outputs, "to")}});
  }
  json["in_the_way"] = split.in_the_way;
  json["taken_for_granted"] = split.assumptions;
  return json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rnnserve::rnnctl::inspect
