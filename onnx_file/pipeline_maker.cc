// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/pipeline_maker.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "base/view.h"
#include "engine/op/op_spec.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"

namespace rnnserve {
namespace {

constexpr size_t kMostNameBytes = 512;
constexpr std::string_view kParted =
    "has numbers of a step before its steps and others before its rows; transpose it so that they are neighbours";

absl::Status CheckTensorName(std::string_view what, const std::string& name) {
  if (IsTensorName(name)) return absl::OkStatus();
  return BadFile(absl::StrCat("a ", View(what), " is called ", Quoted(name), " (", name.size(),
                              " bytes); a name is 1 to ", kMostNameBytes, " bytes of UTF-8"));
}

// Whether the numbers of a step that come before T or N are neighbours, as a MapRow walks through them.
bool CanBeWalked(const Shape& axes) {
  int64_t runs = 0, numbers = 1;
  for (const int64_t axis : axes) {
    const bool is_number = axis != kDimT && axis != kDimN;
    runs += !is_number && numbers > 1 ? 1 : 0;
    numbers = is_number ? numbers * axis : 1;
  }
  return runs <= 1;
}

bool IsActivation(MapFunction function) {
  return function == MapFunction::kRelu || function == MapFunction::kTanh || function == MapFunction::kSigmoid;
}

class Maker {
 public:
  Maker(Lowering& lowered, DataType data_type)
      : lowered_(lowered),
        nodes_(lowered.flows().nodes()),
        data_type_(data_type),
        made_(std::make_shared<Pipeline>()) {}

  absl::StatusOr<PipelinePtr> Make() {
    if (absl::Status inputs = Inputs(); !inputs.ok()) return inputs;
    if (absl::Status outputs = Outputs(); !outputs.ok()) return outputs;
    Need();
    Fuse();
    const size_t layers = lowered_.layers().size();
    made_->maps.resize(layers + 1);
    for (const LoweredLayer& layer : lowered_.layers()) {
      made_->layer_x.push_back(PlaceOf(layer.x));
      made_->layer_y.push_back(-1);
      made_->starts.push_back(layer.start);
      made_->layer_h.push_back(layer.start_h < 0 ? -1 : PlaceOf(layer.start_h));
      made_->layer_c.push_back(layer.start_c < 0 ? -1 : PlaceOf(layer.start_c));
    }
    const auto is_zero = [](const LayerStart& start) { return start.h.empty() && start.c.empty(); };
    if (std::ranges::all_of(made_->starts, is_zero)) made_->starts.clear();
    const auto is_none = [](int place) { return place < 0; };
    if (std::ranges::all_of(made_->layer_h, is_none) && std::ranges::all_of(made_->layer_c, is_none)) {
      made_->layer_h.clear();
      made_->layer_c.clear();
    }
    MakeMap(kRecords, made_->records);
    for (size_t stage = 0; stage <= layers; ++stage) MakeMap(stage, made_->maps[stage]);
    MakeMap(layers + 1, made_->rows);
    for (size_t layer = 0; layer < layers; ++layer) {
      if (const auto place = places_.find(lowered_.layers()[layer].y); place != places_.end()) {
        made_->layer_y[layer] = place->second;
      }
    }
    SetLastStages();
    return PipelinePtr(made_);
  }

 private:
  const FlowNode& at(int node) const { return nodes_[static_cast<size_t>(node)]; }
  // The operator behind a second result.
  int OperatorOf(int node) const { return at(node).result == 0 ? node : at(node).op.in[0]; }

  // The map that computes it: the first one after all layers that it needs. What is of whole rows comes last, what is
  // of their records first.
  static constexpr size_t kRecords = std::numeric_limits<size_t>::max();
  size_t StageOf(int node) const { return stages_[static_cast<size_t>(node)]; }

  absl::Status Inputs();
  bool IsOfAllRows(size_t input) const;
  absl::Status StepShape(const InputUse& use, PipelineInput& input);
  absl::Status Outputs();
  void Need();
  void Fuse();
  void MakeMap(size_t stage, MapUse& use);
  int PlaceOf(int node);
  // What a layer takes, in its type.
  bool IsOfLayer(int node) const {
    return std::ranges::any_of(lowered_.layers(), [node](const LoweredLayer& layer) {
      return layer.x == node || layer.start_h == node || layer.start_c == node;
    });
  }
  void SetLastStages();
  DataType TypeOf(const FlowNode& node) const {
    return node.is_integer                                                              ? DataType::kInt64
           : node.kind == FlowNode::Kind::kOp || node.kind == FlowNode::Kind::kOverTime ? ComputeType(data_type_)
                                                                                        : data_type_;
  }

  Lowering& lowered_;
  std::vector<FlowNode>& nodes_;
  const DataType data_type_;
  std::shared_ptr<Pipeline> made_;
  std::vector<size_t> input_numbers_;    // graph input -> of the pipeline
  std::vector<size_t> stages_;           // of each node
  std::vector<std::vector<int>> users_;  // operators that take each node, and are needed
  std::set<int> needed_;
  std::map<int, int> places_;  // of nodes
  struct Wanted {
    int node;
    size_t output;
  };
  std::vector<Wanted> wanted_;
};

absl::Status Maker::StepShape(const InputUse& use, PipelineInput& input) {
  const Symbols& symbols = lowered_.symbols();
  for (size_t axis = 0; axis < use.layout.rank(); ++axis) {
    const std::optional<int> symbol = use.layout.SymbolOf(axis);
    const int root = symbol ? symbols.Find(*symbol) : -1;
    if (root > Symbols::kN) {
      lowered_.Blame({.graph_input = input.name});
      const std::string label = absl::StrCat("graph input ", Quoted(input.name));
      return BadFile(
          root <= Symbols::kSortedN
              ? absl::StrCat(label,
                             " is joined with steps or rows in another order than a request brings them; turn "
                             "or sort it as well")
              : absl::StrCat(label, ": nothing tells whether its axis ", axis,
                             " is the steps or the rows, since no layer takes it"));
    }
    input.shape.push_back(!symbol ? use.layout.FeatureSize(axis).value_or(1) : root == Symbols::kT ? kDimT : kDimN);
  }
  if (std::ranges::count(input.shape, kDimT) > 1 || std::ranges::count(input.shape, kDimN) > 1) {
    lowered_.Blame({.graph_input = input.name});
    return BadFile(absl::StrCat("graph input ", Quoted(input.name), " ", use.layout.Text(symbols),
                                " is joined with others so that two of its axes are the same steps or rows"));
  }
  if (CanBeWalked(input.shape)) return absl::OkStatus();
  lowered_.Blame({.graph_input = input.name});
  return BadFile(absl::StrCat("graph input ", Quoted(input.name), " ", use.layout.Text(symbols), " ", View(kParted)));
}

// [1, K] beside any number of rows, and no output is made of records alone: those would have one row as well.
bool Maker::IsOfAllRows(size_t input) const {
  const onnx::GraphProto& graph = lowered_.graph();
  const auto is_of_record = [&](const Lowering::Output& output) {
    return lowered_.flows().at(output.flow.node).of_record;
  };
  bool has_open_rows = false;
  for (size_t k = 0; k < lowered_.inputs().size(); ++k) {
    const InputUse& use = lowered_.inputs()[k];
    if (use.kind != InputUse::Kind::kSteps || use.is_of_row) continue;
    for (size_t axis = 0; axis < use.layout.rank(); ++axis) {
      const std::optional<int> symbol = use.layout.SymbolOf(axis);
      const bool are_rows = symbol && lowered_.symbols().Find(*symbol) == Symbols::kN;
      has_open_rows |= are_rows && !DimOf(graph.input(static_cast<int>(k)), static_cast<int>(axis));
    }
  }
  return has_open_rows && DimOf(graph.input(static_cast<int>(input)), 0) == 1 &&
         std::ranges::none_of(lowered_.outputs(), is_of_record);
}

absl::Status Maker::Inputs() {
  const onnx::GraphProto& graph = lowered_.graph();
  input_numbers_.resize(lowered_.inputs().size());
  bool has_lengths = false, has_steps = false;
  for (size_t k = 0; k < lowered_.inputs().size(); ++k) {
    const InputUse& use = lowered_.inputs()[k];
    PipelineInput input;
    input.name = graph.input(static_cast<int>(k)).name();
    if (absl::Status named = CheckTensorName("graph input", input.name); !named.ok()) return named;
    input.type = use.type;
    input.entries = use.entries;
    switch (use.kind) {
      case InputUse::Kind::kUnused:
        continue;
      case InputUse::Kind::kSteps:
        if (absl::Status shaped = StepShape(use, input); !shaped.ok()) return shaped;
        if (use.is_of_row) {
          if (IsOfAllRows(k)) input.shape[0] = 1;
          break;
        }
        if (lowered_.is_one_step() != (use.layout.rank() == 1)) {
          lowered_.Blame({.graph_input = input.name});
          return BadFile(absl::StrCat("graph input ", Quoted(input.name),
                                      ": one input brings one step of each row, "
                                      "without an axis of steps, and another one several; give both the axis"));
        }
        has_steps = true;
        break;
      case InputUse::Kind::kLengths:
        input.kind = PipelineInput::Kind::kLengths;
        input.shape = {kDimN};
        input.optional = true;
        input.needs_steps = lowered_.rows_need_steps();
        has_lengths = true;
        break;
      case InputUse::Kind::kState:
        input.kind = use.is_c ? PipelineInput::Kind::kInitialC : PipelineInput::Kind::kInitialH;
        input.layers = use.layers;
        int64_t directions = 0;
        for (const size_t layer : use.layers) directions += lowered_.layers()[layer].directions;
        input.shape = {directions, kDimN, lowered_.layers()[use.layers[0]].hidden_size};
        if (lowered_.layers()[use.layers[0]].rows_first) std::swap(input.shape[0], input.shape[1]);
        if (graph.input(static_cast<int>(k)).type().tensor_type().shape().dim_size() == 2) {
          input.shape = {kDimN, input.shape[2]};
        }
        break;
    }
    input_numbers_[k] = made_->inputs.size();
    made_->inputs.push_back(std::move(input));
  }
  if (!has_steps) return BadFile("no graph input brings steps");
  const auto is_lengths = [](const PipelineInput& input) { return input.name == "sequence_lens"; };
  if (!has_lengths && std::ranges::none_of(made_->inputs, is_lengths)) {
    made_->inputs.push_back({.name = "sequence_lens",
                             .type = DataType::kInt32,
                             .kind = PipelineInput::Kind::kLengths,
                             .shape = {kDimN},
                             .optional = true});
  }
  return absl::OkStatus();
}

absl::Status Maker::Outputs() {
  const Symbols& symbols = lowered_.symbols();
  for (const Lowering::Output& output : lowered_.outputs()) {
    const Layout& layout = output.flow.layout;
    PipelineOutput made = {.name = output.name, .type = output.flow.type, .shape = {}};
    if (absl::Status named = CheckTensorName("graph output", made.name); !named.ok()) return named;
    const auto refuse = [&](const std::string& text) {
      lowered_.Blame({.output = output.name});
      return BadFile(absl::StrCat("graph output ", Quoted(output.name), " ", layout.Text(symbols), " ", text));
    };
    bool has_t = false, has_n = false;
    for (size_t axis = 0; axis < layout.rank(); ++axis) {
      const std::optional<int> symbol = layout.SymbolOf(axis);
      const std::optional<int64_t> size = layout.FeatureSize(axis);
      if (!symbol && !size) return refuse("joins steps or rows with other axes; keep them apart");
      if (symbol && symbols.Find(*symbol) == Symbols::kBackT) {
        const Obstacle& turn = lowered_.last_turn();
        lowered_.Blame(turn);
        return BadFile(absl::StrCat(turn.label, " turns the steps round, and nothing turns ", Quoted(output.name), " ",
                                    layout.Text(symbols),
                                    " back (PyTorch: flip; Keras: ops.flip, also behind go_backwards=True)"));
      }
      if (symbol && symbols.Find(*symbol) == Symbols::kSortedN) {
        return refuse("has its rows in the order of their lengths; put them back (PyTorch: pad_packed_sequence does)");
      }
      if (symbol && symbols.Find(*symbol) > Symbols::kN) return refuse("has an axis that is neither steps nor rows");
      if (symbol) {
        (symbols.Find(*symbol) == Symbols::kT ? has_t : has_n) = true;
        made.shape.push_back(symbols.Find(*symbol) == Symbols::kT ? kDimT : kDimN);
      } else {
        made.shape.push_back(*size);
      }
    }
    const FlowNode& node = at(output.flow.node);
    if (!has_n || has_t != node.per_step) return refuse("lacks its rows or steps");
    if (!CanBeWalked(made.shape)) return refuse(std::string(kParted));
    std::vector<int> waiting = {output.flow.node};
    std::set<int> seen;
    while (!waiting.empty()) {  // what of it sees the end of sequences
      const int next = waiting.back();
      waiting.pop_back();
      if (!seen.insert(next).second) continue;
      if (at(next).kind == FlowNode::Kind::kOverTime) {
        const OverTime over_time = at(next).over_time;
        if (made.over_time == OverTime::kEach || made.over_time == OverTime::kLast) {
          made.over_time = over_time == OverTime::kLastOfAll ? OverTime::kLast : over_time;
        }
        continue;
      }
      waiting.insert(waiting.end(), at(next).op.in.begin(), at(next).op.in.end());
    }
    wanted_.push_back({output.flow.node, made_->outputs.size()});
    made_->outputs.push_back(std::move(made));
  }
  return absl::OkStatus();
}

// What outputs and layers need, and the stage of each.
void Maker::Need() {
  const size_t layers = lowered_.layers().size();
  std::vector<int> waiting;
  for (const Wanted& wanted : wanted_) waiting.push_back(wanted.node);
  for (const LoweredLayer& layer : lowered_.layers()) {
    for (const int node : {layer.x, layer.start_h, layer.start_c}) {
      if (node >= 0) waiting.push_back(node);
    }
  }
  users_.resize(nodes_.size());
  while (!waiting.empty()) {
    const int next = waiting.back();
    waiting.pop_back();
    if (!needed_.insert(next).second) continue;
    for (const int in : at(next).op.in) {
      users_[static_cast<size_t>(in)].push_back(next);
      waiting.push_back(in);
    }
  }
  stages_.resize(nodes_.size());
  for (size_t k = 0; k < nodes_.size(); ++k) {  // inputs come before what takes them
    const FlowNode& node = nodes_[k];
    size_t& stage = stages_[k];
    if (node.kind == FlowNode::Kind::kLayerY) stage = node.layer + 1;
    for (const int in : node.op.in) {
      if (!at(in).of_record) stage = std::max(stage, stages_[static_cast<size_t>(in)]);
    }
    if (!node.per_step && node.kind != FlowNode::Kind::kOverTime) stage = layers + 1;
    if (node.of_record && node.kind == FlowNode::Kind::kOp) stage = kRecords;
  }
}

// A product takes along its bias, and then the function that follows, where nothing else takes what lies between.
void Maker::Fuse() {
  std::set<int> kept;
  for (const Wanted& wanted : wanted_) kept.insert(wanted.node);
  for (const LoweredLayer& layer : lowered_.layers()) kept.insert({layer.x, layer.start_h, layer.start_c});
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (!needed_.contains(static_cast<int>(k))) continue;
    FlowNode& node = nodes_[k];
    if (node.kind != FlowNode::Kind::kOp || node.op.in.size() != 1 || node.result != 0) continue;
    const int from = node.op.in[0];
    const FlowNode& before = at(from);
    if (before.kind != FlowNode::Kind::kOp || before.op.kind != MapOpKind::kProduct || kept.contains(from) ||
        users_[static_cast<size_t>(from)].size() != 1 || before.op.function != MapFunction::kNone) {
      continue;
    }
    MapOp product = before.op;
    if (node.op.kind == MapOpKind::kConstant && node.op.function == MapFunction::kAdd && before.op.b == nullptr &&
        node.op.a->size() == before.op.a->size() / before.op.inner) {
      product.b = node.op.a;
    } else if (node.op.kind == MapOpKind::kUnary && IsActivation(node.op.function)) {
      product.function = node.op.function;
    } else {
      continue;
    }
    needed_.erase(from);
    for (const int in : product.in) std::ranges::replace(users_[static_cast<size_t>(in)], from, static_cast<int>(k));
    node.op = std::move(product);
  }
}

int Maker::PlaceOf(int node) {
  if (const auto found = places_.find(node); found != places_.end()) return found->second;
  const FlowNode& from = at(node);
  Place place = {.type = TypeOf(from), .width = from.width};
  switch (from.kind) {
    case FlowNode::Kind::kInput:
      place.kind = PlaceKind::kInput;
      place.input = input_numbers_[from.input];
      place.type = made_->inputs[place.input].type;
      break;
    case FlowNode::Kind::kFinalH:
    case FlowNode::Kind::kFinalC:
      place.kind = from.kind == FlowNode::Kind::kFinalH ? PlaceKind::kFinalH : PlaceKind::kFinalC;
      place.layer = from.layer;
      place.direction = from.direction;
      break;
    case FlowNode::Kind::kOverTime:
      place.kind = PlaceKind::kRow;
      place.beyond = from.beyond;
      place.over_time = from.over_time;
      break;
    case FlowNode::Kind::kLayerY:
      break;
    case FlowNode::Kind::kOp:
      if (from.of_record) place.kind = PlaceKind::kRow;
      if (IsOfLayer(node)) place.type = data_type_;
  }
  made_->places.push_back(place);
  return places_[node] = static_cast<int>(made_->places.size()) - 1;
}

// The operators of one stage, in their order, with what they read from outside and what others read of them.
void Maker::MakeMap(size_t stage, MapUse& use) {
  auto map = std::make_shared<Map>();
  map->compute_type = ComputeType(data_type_);
  std::map<int, int> values;  // of nodes
  const auto is_here = [&](int node) { return at(node).kind == FlowNode::Kind::kOp && StageOf(node) == stage; };
  const auto new_value = [&](int node) {
    map->values.push_back({at(node).width, at(node).is_integer});
    return values[node] = static_cast<int>(map->values.size()) - 1;
  };
  const auto value_of = [&](int node) {
    if (const auto found = values.find(node); found != values.end()) return found->second;
    const int place = PlaceOf(node);
    use.reads.push_back(place);
    const int value = new_value(node);
    map->inputs.push_back({value, made_->places[static_cast<size_t>(place)].type});
    return value;
  };
  for (size_t k = 0; k < nodes_.size(); ++k) {
    const int node = static_cast<int>(k);
    if (!needed_.contains(node) || !is_here(node) || at(node).result != 0) continue;
    MapOp op = at(node).op;
    for (int& in : op.in) in = value_of(in);
    op.out = {new_value(node)};
    if (op.kind == MapOpKind::kTopK) {
      const auto second = std::ranges::find_if(
          nodes_, [&](const FlowNode& other) { return other.result == 1 && other.op.in[0] == node; });
      op.out.push_back(new_value(static_cast<int>(second - nodes_.begin())));
    }
    map->ops.push_back(std::move(op));
  }
  const auto write = [&](int node, MapUse::Target target, DataType type) {
    map->outputs.push_back({value_of(node), type});
    use.writes.push_back(target);
  };
  // What layers, later maps and the ends of sequences take.
  for (size_t k = 0; k < nodes_.size(); ++k) {
    const int node = static_cast<int>(k);
    if (!needed_.contains(node)) continue;
    if (at(node).kind == FlowNode::Kind::kOverTime && StageOf(node) == stage) {
      const int place = PlaceOf(node);
      write(at(node).op.in[0], {.place = place, .over_time = at(node).over_time},
            made_->places[static_cast<size_t>(place)].type);
    }
    if (!is_here(node)) continue;
    const bool goes_on = std::ranges::any_of(users_[k], [&](int user) {
      return needed_.contains(user) && at(user).kind == FlowNode::Kind::kOp && StageOf(OperatorOf(user)) != stage;
    });
    if (IsOfLayer(node) || goes_on) {
      const int place = PlaceOf(node);
      write(node, {.place = place}, made_->places[static_cast<size_t>(place)].type);
    }
  }
  const size_t last = lowered_.layers().size();
  for (const Wanted& wanted : wanted_) {
    const FlowNode& node = at(wanted.node);
    const size_t computed = node.kind == FlowNode::Kind::kOverTime ? last + 1 : StageOf(wanted.node);
    if (computed != stage) continue;
    write(wanted.node, {.output = static_cast<int>(wanted.output)}, made_->outputs[wanted.output].type);
  }
  if (!map->outputs.empty()) use.map = std::move(map);
}

void Maker::SetLastStages() {
  const auto take = [&](int place, size_t stage) {
    size_t& last = made_->places[static_cast<size_t>(place)].last_stage;
    last = std::max(last, stage);
  };
  for (size_t k = 0; k < made_->maps.size(); ++k) {
    for (const int place : made_->maps[k].reads) take(place, MapStage(k));
    if (k < made_->layer_x.size()) take(made_->layer_x[k], LayerStage(k));
    if (k < made_->layer_y.size() && made_->layer_y[k] >= 0) take(made_->layer_y[k], LayerStage(k));
  }
  for (size_t k = 0; k < made_->maps.size(); ++k) {
    for (const MapUse::Target& target : made_->maps[k].writes) {
      if (target.place >= 0) take(target.place, MapStage(k));
    }
  }
}

}  // namespace

absl::StatusOr<PipelinePtr> MakePipeline(Lowering& lowered, DataType data_type) {
  return Maker(lowered, data_type).Make();
}

bool IsTensorName(const std::string& name) { return !name.empty() && name.size() <= kMostNameBytes && IsUtf8(name); }

}  // namespace rnnserve
