// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/support/random_operator.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

namespace rnnserve {
namespace {

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  int64_t Int(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool OneIn(int64_t n) { return Int(1, n) == 1; }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  template <typename T>
  T From(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Int(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  std::vector<double> Reals(int64_t count, double bound) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& value : values) value = Real(-bound, bound);
    return values;
  }

 private:
  std::mt19937_64& random_;
};

// Written down again here, from the text, so that a wrong default in engine/op shows.
struct KnownFunction {
  const char* name;
  std::optional<float> alpha, beta;
};
const std::vector<KnownFunction>& KnownFunctions() {
  static const auto* const known =
      new std::vector<KnownFunction>{{"Relu", {}, {}},           {"Tanh", {}, {}},
                                     {"Sigmoid", {}, {}},        {"Affine", 1.0f, 0.0f},
                                     {"LeakyRelu", 0.01f, {}},   {"ThresholdedRelu", 1.0f, {}},
                                     {"ScaledTanh", 1.0f, 1.0f}, {"HardSigmoid", 0.2f, 0.5f},
                                     {"Elu", 1.0f, {}},          {"Softsign", {}, {}},
                                     {"Softplus", {}, {}}};
  return *known;
}

std::vector<std::string> DefaultNames(CellKind kind) {
  if (kind == CellKind::kLstm) return {"Sigmoid", "Tanh", "Tanh"};
  if (kind == CellKind::kGru) return {"Sigmoid", "Tanh"};
  return {"Tanh"};
}

void DrawActivations(Draw& draw, const Pinned& pinned, RandomOperator& out) {
  const std::vector<std::string> defaults = DefaultNames(out.kind);
  const size_t listed = out.openvino ? 1 : static_cast<size_t>(out.directions);
  std::vector<std::string> names;
  for (size_t d = 0; d < listed; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  const bool own = !pinned.default_functions && !draw.OneIn(3);
  if (own) {
    const std::vector<std::string> openvino_names = {"sigmoid", "tanh", "relu", "Sigmoid", "hardsigmoid"};
    for (std::string& name : names) {
      name = out.openvino ? draw.From(openvino_names) : draw.From(KnownFunctions()).name;
    }
    out.op.attributes["activations"] = names;
  }
  // A list of values for the first k functions that take one; the rest keeps its default.
  std::vector<MeantFunction> meant;
  for (auto* const list : {"alpha", "beta"}) {
    const bool alpha = std::string(list) == "alpha";
    std::vector<float> values;
    const bool give = own && draw.OneIn(2);
    for (size_t k = 0; k < names.size(); ++k) {
      const auto same = [&](const KnownFunction& known) {
        return std::equal(names[k].begin(), names[k].end(), known.name, known.name + std::string(known.name).size(),
                          [](char a, char b) { return std::tolower(a) == std::tolower(b); });
      };
      const auto& known = *std::find_if(KnownFunctions().begin(), KnownFunctions().end(), same);
      if (alpha) meant.push_back({known.name, 0, 0});
      const std::optional<float>& default_value = alpha ? known.alpha : known.beta;
      double& target = alpha ? meant[k].alpha : meant[k].beta;
      const auto value = static_cast<float>(draw.Real(0.1, 0.9));
      if (default_value) target = static_cast<double>(give ? value : *default_value);
      if (give && (default_value || out.openvino)) values.push_back(value);  // OpenVINO lists by position
    }
    if (!values.empty()) {
      out.op.attributes[std::string(out.openvino ? "activations_" : "activation_") + list] = values;
    }
  }
  for (size_t d = 0; d < static_cast<size_t>(out.directions); ++d) {
    const size_t first = listed == 1 ? 0 : d * defaults.size();
    for (size_t k = 0; k < defaults.size(); ++k) out.functions[d].push_back(meant[first + k]);
  }
}

void DrawOperator(Draw& draw, const Pinned& pinned, RandomOperator& out) {
  const char* names[] = {"LSTM", "GRU", "RNN"};
  const std::string name = names[static_cast<size_t>(out.kind)];
  if (out.openvino) {
    out.op.domain = "openvino";
    out.op.op_type = name + "Sequence";
    out.op.version = 5;
    out.op.attributes["hidden_size"] = out.hidden_size;
  } else {
    out.op.domain = draw.OneIn(2) ? "" : "ai.onnx";
    out.op.op_type = name;
    std::vector<int64_t> versions = {1, 7, 14, 22};
    if (out.kind == CellKind::kGru) versions.push_back(3);
    if (out.layout == 1) versions = {14, 22};
    if (out.type == DataType::kBFloat16) versions = {22};
    out.op.version = draw.From(versions);
    if (draw.OneIn(2)) out.op.attributes["hidden_size"] = out.hidden_size;
    if (*out.op.version < 7) out.op.attributes["output_sequence"] = int64_t{1};
    if (*out.op.version >= 14) out.op.attributes["layout"] = out.layout;
    if (out.kind == CellKind::kLstm && draw.OneIn(4)) {
      out.input_forget = true;
      out.op.attributes["input_forget"] = int64_t{1};
    }
  }
  if (out.kind == CellKind::kGru && *out.op.version >= 3 && draw.OneIn(2)) {
    out.linear_before_reset = true;
    out.op.attributes["linear_before_reset"] = int64_t{1};
  }
  const std::string direction = out.direction == Direction::kForward   ? "forward"
                                : out.direction == Direction::kReverse ? "reverse"
                                                                       : "bidirectional";
  if (out.openvino || out.direction != Direction::kForward) out.op.attributes["direction"] = direction;
  if (draw.OneIn(3)) {
    const auto clip = static_cast<float>(draw.Real(0.05, 1));
    out.clip = static_cast<double>(clip);
    out.op.attributes["clip"] = clip;
  }
  DrawActivations(draw, pinned, out);
}

void DrawTensors(Draw& draw, const Pinned& pinned, RandomOperator& out) {
  const int64_t d = out.directions, n = out.rows, t = out.steps, i = out.input_size, h = out.hidden_size;
  const int64_t g = GateCount(out.kind);
  const bool batch_first = out.openvino || out.layout == 1;
  const auto add = [&](const std::string& name, Shape shape, double bound) {
    const int64_t count = NumElements(shape).value();
    out.inputs.push_back(MakeTensor(InputName(out, name), out.type, std::move(shape), draw.Reals(count, bound)));
  };
  add("X", batch_first ? Shape{n, t, i} : Shape{t, n, i}, 1);
  // Gains below 1 keep unbounded functions from blowing rounding up.
  add("W", {d, g * h, i}, 1 / std::sqrt(static_cast<double>(i + 1)));
  add("R", {d, g * h, h}, 0.8 / std::sqrt(static_cast<double>(h)));
  if (out.openvino) {
    add("B", {d, (out.kind == CellKind::kGru && out.linear_before_reset ? 4 : g) * h}, 0.5);
  } else if (!draw.OneIn(4)) {
    add("B", {d, 2 * g * h}, 0.5);
  }
  const bool given_lengths = pinned.lengths.value_or(out.openvino || draw.OneIn(2));
  out.lengths.assign(static_cast<size_t>(n), t);
  if (given_lengths) {
    for (int64_t& length : out.lengths) {
      length = draw.OneIn(3) ? std::min<int64_t>(1, t) : draw.Int(pinned.zero_lengths ? 0 : std::min<int64_t>(1, t), t);
    }
    const std::vector<double> values(out.lengths.begin(), out.lengths.end());
    const DataType type = out.openvino && draw.OneIn(2) ? DataType::kInt64 : DataType::kInt32;
    out.inputs.push_back(MakeTensor(InputName(out, "sequence_lens"), type, {n}, values));
  }
  const Shape state = batch_first ? Shape{n, d, h} : Shape{d, n, h};
  if (out.openvino || draw.OneIn(2)) add("initial_h", state, 1);
  if (out.kind != CellKind::kLstm) return;
  if (out.openvino || draw.OneIn(2)) add("initial_c", state, 2);
  if (!out.openvino && draw.OneIn(2)) add("P", {d, 3 * h}, 0.7);
}

}  // namespace

std::string InputName(const RandomOperator& op, const std::string& onnx_name) {
  if (!op.openvino) return onnx_name;
  if (onnx_name == "sequence_lens") return "sequence_lengths";
  if (onnx_name == "initial_h") return "initial_hidden_state";
  if (onnx_name == "initial_c") return "initial_cell_state";
  return onnx_name;
}

std::string OutputName(const RandomOperator& op, const std::string& onnx_name) {
  if (!op.openvino || onnx_name == "Y") return onnx_name;
  return onnx_name == "Y_h" ? "Ho" : "Co";
}

RandomOperator MakeRandomOperator(std::mt19937_64& random, DataType type, const Pinned& pinned) {
  Draw draw(random);
  RandomOperator out;
  out.type = type;
  out.kind = pinned.kind.value_or(draw.From<CellKind>({CellKind::kLstm, CellKind::kGru, CellKind::kRnn}));
  out.direction = pinned.direction.value_or(
      draw.From<Direction>({Direction::kForward, Direction::kReverse, Direction::kBidirectional}));
  out.directions = out.direction == Direction::kBidirectional ? 2 : 1;
  out.openvino = pinned.openvino.value_or(!pinned.layout && draw.OneIn(4));
  out.layout = out.openvino ? 0 : pinned.layout.value_or(draw.Int(0, 1));
  out.hidden_size = draw.From<int64_t>({1, 7, 17, 33});
  out.input_size = pinned.input_size.value_or(draw.From<int64_t>({0, 1, 7, 17, 33}));
  out.rows = pinned.rows.value_or(draw.From<int64_t>({1, 2, 3, 7}));
  out.steps = pinned.steps.value_or(draw.From<int64_t>({pinned.zero_lengths ? 0 : 1, 1, 2, 7, 17}));
  DrawOperator(draw, pinned, out);
  DrawTensors(draw, pinned, out);
  return out;
}

std::string RandomOperator::Describe() const {
  std::ostringstream text;
  text << op.op_type << "-" << *op.version << " " << DataTypeName(type) << " T=" << steps << " N=" << rows
       << " I=" << input_size << " H=" << hidden_size << " direction=" << static_cast<int>(direction)
       << " layout=" << layout << " clip=" << clip << " input_forget=" << input_forget
       << " linear_before_reset=" << linear_before_reset << " functions";
  for (const auto& list : functions) {
    for (const MeantFunction& function : list) {
      text << " " << function.name << "(" << function.alpha << "," << function.beta << ")";
    }
  }
  text << " lengths";
  for (int64_t length : lengths) text << " " << length;
  text << " inputs";
  for (const OwnedTensor& input : inputs) text << " " << input.name;
  return text.str();
}

}  // namespace rnnserve
