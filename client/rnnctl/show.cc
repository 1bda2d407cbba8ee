// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/show.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/rnnctl/attributes.h"

namespace rnnserve::rnnctl {
namespace {

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

struct Summary {
  double min, max, mean;
};

// Of the elements that are no NaN; a NaN among them shows in the mean.
std::optional<Summary> Summarise(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  Summary summary{values[0], values[0], 0};
  for (double value : values) {
    summary.min = std::fmin(summary.min, value);
    summary.max = std::fmax(summary.max, value);
    summary.mean += value / static_cast<double>(values.size());
  }
  return summary;
}

std::string FirstValues(const std::vector<double>& values, size_t count) {
  std::vector<std::string> shown;
  for (size_t k = 0; k < std::min(count, values.size()); ++k) shown.push_back(Number(values[k]));
  if (values.size() > count) shown.push_back("...");
  return absl::StrJoin(shown, " ");
}

std::string OperatorText(const OperatorDef& op) {
  std::string text = op.domain.empty() ? op.op_type : absl::StrCat(op.domain, ".", op.op_type);
  if (op.version) absl::StrAppend(&text, "-", *op.version);
  if (op.opset) absl::StrAppend(&text, " (opset ", *op.opset, ")");
  return text;
}

// "LSTM (opset 14)", or "LSTM (opset 14), 3 layers", or "GRU (opset 14), LSTM (opset 14)".
std::string OperatorsText(const client::ModelInfo& model) {
  if (model.layers.empty()) return OperatorText(model.op);
  std::vector<std::string> texts;
  for (const OperatorDef& layer : model.layers) texts.push_back(OperatorText(layer));
  const bool equal = std::equal(texts.begin() + 1, texts.end(), texts.begin());
  return equal ? absl::StrCat(texts[0], ", ", texts.size(), " layers") : absl::StrJoin(texts, ", ");
}

void AddAttributes(std::string_view title, const OperatorDef& op, std::vector<std::vector<std::string>>& rows) {
  for (const auto& [name, value] : op.attributes) {
    rows.push_back({std::string(title), absl::StrCat(name, "=", AttributeText(value))});
  }
}

void AddSpecs(std::string_view title, const std::vector<client::TensorSpec>& specs,
              std::vector<std::vector<std::string>>& rows) {
  for (const client::TensorSpec& spec : specs) {
    rows.push_back({std::string(title), spec.name, std::string(DataTypeName(spec.type)),
                    absl::StrCat("[", absl::StrJoin(spec.shape, ", "), "]"), spec.optional ? "optional" : ""});
  }
}

void AddOptions(const client::Options& options, std::vector<std::vector<std::string>>& rows) {
  const auto add = [&](std::string name, std::optional<bool> value) {
    if (value) rows.push_back({std::move(name), *value ? "true" : "false"});
  };
  add("clip_cell_input", options.clip_cell_input);
  if (options.empty_row_state) {
    rows.push_back(
        {"empty_row_state", *options.empty_row_state == client::EmptyRowState::kInitial ? "initial" : "zeros"});
  }
  add("deterministic", options.deterministic);
  add("allow_reduced_precision", options.allow_reduced_precision);
  if (options.weight_type) rows.push_back({"weight_type", std::string(WeightTypeName(*options.weight_type))});
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
  }
  return result;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t k = 0; k < row.size(); ++k) {
      line.append(row[k]);
      line.append(widths[k] - row[k].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string ShowTime(std::chrono::nanoseconds time) {
  using std::chrono::round;
  using Tenths = std::chrono::duration<int64_t, std::deci>;
  const auto tenths = round<Tenths>(std::max(time, std::chrono::nanoseconds::zero()));
  if (tenths < std::chrono::minutes(1)) return absl::StrFormat("%d.%ds", tenths.count() / 10, tenths.count() % 10);
  const auto seconds = round<std::chrono::seconds>(time);
  if (seconds < std::chrono::hours(1)) return absl::StrFormat("%dm%02ds", seconds.count() / 60, seconds.count() % 60);
  const auto minutes = round<std::chrono::minutes>(time);
  return absl::StrFormat("%dh%02dm", minutes.count() / 60, minutes.count() % 60);
}

std::string ShowBytes(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double size = static_cast<double>(bytes) / 1024;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; size >= 1023.95 && unit + 1 < std::size(units); ++unit) size /= 1024;
  return absl::StrFormat("%.1f %s", size, units[unit]);
}

std::string ShowResult(const client::InferResult& result, const std::vector<std::string>& files, size_t values) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "TYPE", "SHAPE", "MIN", "MAX", "MEAN"}};
  rows[0].push_back(files.empty() ? "VALUES" : "FILE");
  for (size_t k = 0; k < result.outputs.size(); ++k) {
    const client::Tensor& output = result.outputs[k];
    const std::vector<double> elements = client::ValuesOf(output);
    const std::optional<Summary> summary = Summarise(elements);
    rows.push_back({output.name, std::string(DataTypeName(output.type)), ShapeString(output.shape),
                    summary ? Number(summary->min) : "-", summary ? Number(summary->max) : "-",
                    summary ? Number(summary->mean) : "-", files.empty() ? FirstValues(elements, values) : files[k]});
  }
  std::string text = FormatTable(rows);
  absl::StrAppend(&text, "\nengine ", result.engine.empty() ? "none (nothing to compute)" : result.engine,
                  absl::StrFormat(", queue %.3f ms, compute %.3f ms", Milliseconds(result.queue_time),
                                  Milliseconds(result.compute_time)),
                  ", largest batch ", result.largest_batch, "\n");
  if (!result.request_id.empty()) absl::StrAppend(&text, "request ", result.request_id, "\n");
  absl::StrAppend(&text, "fingerprint ", result.fingerprint, "\n");
  for (const std::string& warning : result.warnings) absl::StrAppend(&text, "warning: ", warning, "\n");
  return Printable(text);
}

std::string ShowModels(const client::ModelList& list) {
  std::string text;
  if (list.models.empty()) text = "no models loaded\n";
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "VERSION", "OPERATOR", "WEIGHTS", "PACKED", "SOURCE", "FINGERPRINT"}};
  const bool of_tenants = std::ranges::any_of(list.models, [](const auto& model) { return !model.tenant.empty(); });
  if (of_tenants) rows[0].push_back("TENANT");
  for (const client::ModelInfo& model : list.models) {
    rows.push_back({model.name, absl::StrCat(model.version), OperatorsText(model), ShowBytes(model.weight_bytes),
                    ShowBytes(model.packed_bytes), model.source, model.fingerprint.substr(0, 12)});
    if (of_tenants) rows.back().push_back(model.tenant.empty() ? "(everybody)" : model.tenant);
  }
  if (!list.models.empty()) text = FormatTable(rows);
  for (const auto& failure : list.failures) {
    absl::StrAppend(&text, "not loaded: ", failure.path, ": ", failure.reason, "\n");
  }
  return Printable(text);
}

std::string ShowModel(const client::ModelInfo& model) {
  std::vector<std::vector<std::string>> facts = {
      {"name", model.name},
      {"version", absl::StrCat(model.version)},
      {"operator", OperatorsText(model)},
      {"fingerprint", model.fingerprint},
      {"source", model.source},
      {"tenant", model.tenant.empty() ? "everybody's" : model.tenant},
      {"engine", model.engine.empty() ? "the server's default" : model.engine},
      {"weights",
       absl::StrCat(ShowBytes(model.weight_bytes), "; packed by engines so far ", ShowBytes(model.packed_bytes))},
  };
  AddOptions(model.options, facts);
  AddAttributes("attribute", model.op, facts);
  for (size_t k = 0; k < model.layers.size(); ++k) AddAttributes(absl::StrCat("layer ", k), model.layers[k], facts);
  std::vector<std::vector<std::string>> specs;
  AddSpecs("input", model.inputs, specs);
  AddSpecs("output", model.outputs, specs);
  AddSpecs("state", model.state, specs);
  return Printable(absl::StrCat(FormatTable(facts), "\n", FormatTable(specs)));
}

}  // namespace rnnserve::rnnctl
