// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/rnnctl/inspect/report.h"

namespace rnnserve::rnnctl::inspect {
namespace {

// A JSON string. Bytes above 127 pass: names in ONNX files are UTF-8, and what is none is replaced.
std::string Json(std::string_view text) {
  std::string json = "\"";
  for (size_t k = 0; k < text.size();) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if (byte < 0x80) {
      if (byte == '"' || byte == '\\') json += '\\';
      if (byte < 0x20 || byte == 0x7f) {
        absl::StrAppendFormat(&json, "\\u%04x", byte);
      } else {
        json += text[k];
      }
      ++k;
      continue;
    }
    const size_t length = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
    bool is_whole = length > 0 && byte <= 0xf4 && k + length <= text.size();
    for (size_t next = 1; is_whole && next < length; ++next) {
      is_whole = (static_cast<unsigned char>(text[k + next]) & 0xc0) == 0x80;
    }
    if (is_whole) {
      json += text.substr(k, length);
      k += length;
    } else {
      json += "\\ufffd";
      ++k;
    }
  }
  return json + "\"";
}

std::string JsonList(const std::vector<std::string>& items, std::string_view indent) {
  if (items.empty()) return "[]";
  const std::string inner = absl::StrCat("\n", std::string(indent), "  ");
  return absl::StrCat("[", inner, absl::StrJoin(items, "," + inner), "\n", std::string(indent), "]");
}

std::string JsonStrings(const std::vector<std::string>& texts) {
  return absl::StrCat("[", absl::StrJoin(texts, ", ", [](std::string* out, const std::string& t) { *out += Json(t); }),
                      "]");
}

class JsonObject {
 public:
  JsonObject& Text(std::string_view name, std::string_view value) { return Raw(name, Json(value)); }
  JsonObject& Number(std::string_view name, int64_t value) { return Raw(name, absl::StrCat(value)); }
  JsonObject& Raw(std::string_view name, std::string value) {
    members_.push_back(absl::StrCat(Json(name), ": ", value));
    return *this;
  }
  std::string Done(std::string_view indent) const {
    const std::string inner = absl::StrCat("\n", std::string(indent), "  ");
    return absl::StrCat("{", inner, absl::StrJoin(members_, "," + inner), "\n", std::string(indent), "}");
  }
  std::string Line() const { return absl::StrCat("{", absl::StrJoin(members_, ", "), "}"); }

 private:
  std::vector<std::string> members_;
};

std::string EnginesJson(const Report& report, const std::vector<EngineAnswer>& answers) {
  std::vector<std::string> engines;
  for (const EngineAnswer& answer : answers) {
    JsonObject engine;
    engine.Text("engine", answer.engine).Raw("runs_it", answer.refusal.empty() ? "true" : "false");
    if (!answer.refusal.empty()) engine.Text("reason", answer.refusal);
    std::vector<std::string> times;
    for (size_t k = 0; k < answer.us_per_step.size(); ++k) {
      times.push_back(JsonObject()
                          .Number("steps", report.loads[k].steps)
                          .Number("rows", report.loads[k].rows)
                          .Raw("us_per_step", absl::StrFormat("%.6g", answer.us_per_step[k]))
                          .Line());
    }
    if (!times.empty()) engine.Raw("measured", absl::StrCat("[", absl::StrJoin(times, ", "), "]"));
    engines.push_back(engine.Line());
  }
  return JsonList(engines, "      ");
}

std::string NodeJson(const Report& report, const InspectedNode& node, const std::vector<EngineAnswer>& answers) {
  JsonObject json;
  json.Number("number", node.number).Text("name", node.name).Text("op_type", node.op.op_type);
  json.Raw("path", JsonStrings(node.path)).Text("loads", Verdict(report.file, node));
  if (!node.status.ok()) json.Text("reason", std::string(node.status.message()));
  std::vector<std::string> inputs;
  for (const InspectedInput& input : node.inputs) {
    inputs.push_back(JsonObject().Text("name", input.name).Text("source", input.source).Line());
  }
  json.Raw("inputs", JsonList(inputs, "      "));
  json.Raw("attributes", JsonStrings(UnusualAttributes(node)));
  if (!node.spec) return json.Done("    ");
  json.Number("version", node.spec->version)
      .Number("input_size", node.spec->input_size)
      .Number("hidden_size", node.spec->hidden_size)
      .Text("direction", DirectionName(*node.spec))
      .Text("type", DataTypeName(node.spec->data_type))
      .Number("weight_bytes", WeightBytes(node))
      .Number("state_bytes", StateBytes(*node.spec))
      .Raw("computed_weights", JsonStrings(node.computed_weights))
      .Raw("engines", EnginesJson(report, answers));
  if (report.loads.empty()) {
    json.Raw("auto", JsonStrings(Candidates(answers)));
  } else {
    std::vector<std::string> fastest;
    for (size_t k = 0; k < report.loads.size(); ++k) fastest.push_back(Fastest(answers, k));
    json.Raw("auto", JsonStrings(fastest));
  }
  return json.Done("    ");
}

}  // namespace

std::string ReportJson(const Report& report) {
  const OnnxInspection& file = report.file;
  JsonObject json;
  json.Text("path", report.path).Number("file_bytes", file.file_bytes).Number("opset", file.opset);
  json.Text("producer", file.producer).Number("node_count", file.node_count);
  json.Raw("loads", file.loads.ok() ? "true" : "false");
  if (!file.loads.ok()) json.Text("reason", std::string(file.loads.message()));
  std::vector<std::string> nodes;
  for (size_t k = 0; k < file.nodes.size(); ++k) {
    nodes.push_back(NodeJson(report, file.nodes[k], report.engines[k]));
  }
  return json.Raw("nodes", JsonList(nodes, "  ")).Done("") + "\n";
}

}  // namespace rnnserve::rnnctl::inspect
