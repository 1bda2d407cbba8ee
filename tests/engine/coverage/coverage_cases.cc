// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/coverage/coverage_cases.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

namespace rnnserve {
namespace {

constexpr int64_t kT = 5, kN = 3, kI = 4, kH = 6;

using Change = std::function<void(CoverageCase&)>;

// Cases of one operator, each from the same plain one.
class Operator {
 public:
  Operator(std::string domain, std::string type, int64_t version, int64_t gates, std::vector<CoverageCase>& cases)
      : openvino_(domain == "openvino"), gates_(gates), cases_(cases) {
    def_ = {std::move(domain), std::move(type), version, {}, {{"hidden_size", kH}}};
    if (openvino_) def_.attributes["direction"] = std::string("forward");
  }

  bool openvino() const { return openvino_; }
  bool lstm() const { return gates_ == 4; }
  bool gru() const { return gates_ == 3; }

  void Add(
      std::string what, const Change& change = [](CoverageCase&) {}, int64_t directions = 1, int64_t inputs = kI) {
    CoverageCase made{.op = def_.op_type, .what = std::move(what), .def = def_};
    std::mt19937 random(7);
    const auto put = [&](const std::string& name, Shape shape) {
      std::uniform_real_distribution<double> uniform(-0.5, 0.5);
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      std::vector<double> values(static_cast<size_t>(count));
      for (double& value : values) value = uniform(random);
      made.inputs.push_back(MakeTensor(name, DataType::kFloat, std::move(shape), values));
    };
    const int64_t rows = gates_ * kH;
    put("X", openvino_ ? Shape{kN, kT, inputs} : Shape{kT, kN, inputs});
    put("W", {directions, rows, inputs});
    put("R", {directions, rows, kH});
    if (openvino_) {
      put("B", {directions, rows});
      AddLengths(made, "sequence_lengths", DataType::kInt64, {kT, kT, kT});
      put("initial_hidden_state", {kN, directions, kH});
      if (lstm()) put("initial_cell_state", {kN, directions, kH});
    }
    put_ = put;
    change(made);
    cases_.push_back(std::move(made));
  }

  // For changes: one more input.
  void Put(const std::string& name, Shape shape) { put_(name, std::move(shape)); }
  static void AddLengths(CoverageCase& to, const std::string& name, DataType type, const std::vector<double>& lengths) {
    std::erase_if(to.inputs, [&](const OwnedTensor& input) { return input.name == name; });
    to.inputs.push_back(MakeTensor(name, type, {kN}, lengths));
  }

 private:
  const bool openvino_;
  const int64_t gates_;
  std::vector<CoverageCase>& cases_;
  OperatorDef def_;
  std::function<void(const std::string&, Shape)> put_;
};

Change Set(const std::string& name, AttributeValue value) {
  return [=](CoverageCase& to) { to.def.attributes[name] = value; };
}

void AddDirections(Operator& op) {
  op.Add("direction = reverse", Set("direction", std::string("reverse")));
  op.Add("direction = bidirectional", Set("direction", std::string("bidirectional")), 2);
}

// Each function in each place; the others stay as they are by default.
void AddFunctions(Operator& op, std::vector<std::string> defaults) {
  const std::vector<std::string> functions =
      op.openvino()
          ? std::vector<std::string>{"relu", "sigmoid", "tanh"}
          : std::vector<std::string>{"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
                                     "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  for (size_t place = 0; place < defaults.size(); ++place) {
    for (const std::string& function : functions) {
      std::vector<std::string> names = defaults;
      names[place] = function;
      op.Add("activations, " + std::string(1, "fgh"[place]) + " = " + function, [=](CoverageCase& to) {
        to.def.attributes["activations"] = names;
        // Where outputs depend on rounding at a step, keep away from it.
        if (function == "ThresholdedRelu") to.def.attributes["activation_alpha"] = std::vector<float>{-50};
      });
    }
  }
}

void AddOptions(Operator& op) {
  op.Add("option deterministic", [](CoverageCase& to) { to.engine_options.deterministic = true; });
  op.Add("option weight_type = INT8", [](CoverageCase& to) {
    to.engine_options.allow_reduced_precision = true;
    to.engine_options.weights = WeightType::kInt8;
  });
  op.Add("option empty_row_state = INITIAL", [&op](CoverageCase& to) {
    const bool openvino = op.openvino();
    Operator::AddLengths(to, openvino ? "sequence_lengths" : "sequence_lens",
                         openvino ? DataType::kInt64 : DataType::kInt32, {kT, 0, 2});
    if (!openvino) op.Put("initial_h", {1, kN, kH});
    to.options.empty_row_state = EmptyRowState::kInitial;
  });
}

void AddOnnx(const std::string& type, int64_t gates, const std::vector<int64_t>& older,
             const std::vector<std::string>& functions, std::vector<CoverageCase>& cases) {
  for (const int64_t version : older) {
    Operator("", type, version, gates, cases).Add("version " + std::to_string(version));
  }
  Operator op("", type, 22, gates, cases);
  op.Add("version 22; so are all below");
  op.Add("hidden_size absent", [](CoverageCase& to) { to.def.attributes.erase("hidden_size"); });
  AddDirections(op);
  op.Add("layout = 1", [](CoverageCase& to) {
    to.def.attributes["layout"] = int64_t{1};
    *FindTensor(to.inputs, "X") = Transposed(*FindTensor(to.inputs, "X"), {1, 0, 2});
  });
  op.Add("clip", Set("clip", 0.25f));
  if (op.lstm()) {
    op.Add("clip, option clip_cell_input = false", [](CoverageCase& to) {
      to.def.attributes["clip"] = 0.25f;
      to.options.clip_cell_input = false;
    });
    op.Add("input_forget = 1", Set("input_forget", int64_t{1}));
  }
  if (op.gru()) op.Add("linear_before_reset = 1", Set("linear_before_reset", int64_t{1}));
  op.Add("B", [&](CoverageCase&) { op.Put("B", {1, 2 * gates * kH}); });
  op.Add("sequence_lens, ragged, with 0", [](CoverageCase& to) {
    Operator::AddLengths(to, "sequence_lens", DataType::kInt32, {2, 0, kT});
  });
  op.Add("initial_h", [&](CoverageCase&) { op.Put("initial_h", {1, kN, kH}); });
  if (op.lstm()) {
    op.Add("initial_c", [&](CoverageCase&) { op.Put("initial_c", {1, kN, kH}); });
    op.Add("P", [&](CoverageCase&) { op.Put("P", {1, 3 * kH}); });
  }
  op.Add(
      "X without features", [](CoverageCase&) {}, 1, 0);
  op.Add("Y_h alone", [](CoverageCase& to) { to.wanted = {"Y_h"}; });
  AddOptions(op);
  AddFunctions(op, functions);
}

void AddOpenVino(const std::string& type, int64_t gates, const std::vector<int64_t>& older,
                 const std::vector<std::string>& functions, std::vector<CoverageCase>& cases) {
  for (const int64_t version : older) {
    Operator("openvino", type, version, gates, cases).Add("version " + std::to_string(version));
  }
  Operator op("openvino", type, 5, gates, cases);
  op.Add("version 5; so are all below");
  AddDirections(op);
  op.Add("clip", Set("clip", 0.25f));
  if (op.gru()) {
    op.Add("linear_before_reset = true", [&](CoverageCase& to) {
      to.def.attributes["linear_before_reset"] = int64_t{1};
      std::erase_if(to.inputs, [](const OwnedTensor& input) { return input.name == "B"; });
      op.Put("B", {1, 4 * kH});
    });
  }
  op.Add("sequence_lengths, ragged, with 0", [](CoverageCase& to) {
    Operator::AddLengths(to, "sequence_lengths", DataType::kInt64, {2, 0, kT});
  });
  AddOptions(op);
  AddFunctions(op, functions);
}

}  // namespace

std::vector<OwnedTensor> CoverageCase::InputsOf(DataType type) const {
  std::vector<OwnedTensor> converted;
  for (const OwnedTensor& input : inputs) {
    const bool is_data = input.type == DataType::kFloat;
    converted.push_back(is_data ? MakeTensor(input.name, type, input.shape, input.Values()) : input);
  }
  return converted;
}

std::vector<CoverageCase> CoverageCases() {
  std::vector<CoverageCase> cases;
  AddOnnx("LSTM", 4, {1, 7, 14}, {"Sigmoid", "Tanh", "Tanh"}, cases);
  AddOnnx("GRU", 3, {1, 3, 7, 14}, {"Sigmoid", "Tanh"}, cases);
  AddOnnx("RNN", 1, {1, 7, 14}, {"Tanh"}, cases);
  AddOpenVino("LSTMSequence", 4, {1}, {"sigmoid", "tanh", "tanh"}, cases);
  AddOpenVino("GRUSequence", 3, {}, {"sigmoid", "tanh"}, cases);
  AddOpenVino("RNNSequence", 1, {}, {"tanh"}, cases);
  return cases;
}

}  // namespace rnnserve
