// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx_file/hostile_files.h"

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int kManyNodes = 10000;

// An RNN with I = 2, H = 1, whose W is called "W" and has still to be made.
struct Draft {
  Draft() : model(SmallModel("RNN", 14)), graph(*model.mutable_graph()) {
    rnn = graph.node(0);
    rnn.set_input(1, "W");
    graph.clear_node();
  }
  onnx::NodeProto& Node(const std::string& op_type, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(op_type);
    node.set_name(absl::StrCat("/", op_type));
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }
  void Ints(const std::string& name, const std::vector<int64_t>& values) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    tensor.mutable_int64_data()->Add(values.begin(), values.end());
  }
  onnx::TensorProto& Floats(const std::string& name, const std::vector<int64_t>& dims) {
    return *graph.add_initializer() = FloatTensor(name, dims);
  }
  std::string Done() {
    *graph.add_node() = rnn;
    return model.SerializeAsString();
  }

  onnx::ModelProto model;
  onnx::GraphProto& graph;
  onnx::NodeProto rnn;
};

std::string Make(const std::function<void(Draft&)>& fill) {
  Draft draft;
  fill(draft);
  return draft.Done();
}

// W through `hops` nodes of one kind, each made from the one before by `inputs`.
std::string Chain(const std::string& op_type, int hops,
                  const std::function<std::vector<std::string>(std::string)>& inputs, const std::string& attribute = "",
                  int64_t value = 0) {
  return Make([&](Draft& draft) {
    draft.Floats("0", {64});
    draft.Ints("square", {0, 0, 0, 0});
    onnx::TensorProto& square = *draft.graph.mutable_initializer(draft.graph.initializer_size() - 1);
    square.set_dims(0, 2);
    square.add_dims(2);
    for (int k = 0; k < hops; ++k) {
      onnx::NodeProto& node = draft.Node(op_type, inputs(absl::StrCat(k)), k + 1 == hops ? "W" : absl::StrCat(k + 1));
      if (!attribute.empty()) AddAttribute(node, attribute, onnx::AttributeProto::INT).set_i(value);
    }
  });
}

std::string NestedIfs(int depth) {
  // From the inside out: an If costs three levels of protobuf.
  onnx::GraphProto graph;
  *graph.add_node() = SmallModel("RNN", 14).graph().node(0);
  for (int k = 0; k < depth; ++k) {
    onnx::GraphProto outer;
    onnx::NodeProto& node = *outer.add_node();
    node.set_op_type("If");
    node.add_input("condition");
    node.add_output("y");
    AddAttribute(node, "then_branch", onnx::AttributeProto::GRAPH).mutable_g()->Swap(&graph);
    graph.Swap(&outer);
  }
  onnx::ModelProto model = SmallModel("RNN", 14);
  *model.mutable_graph() = graph;
  return model.SerializeAsString();
}

std::string External(const std::string& location) {
  return Make([&](Draft& draft) {
    onnx::TensorProto& tensor = draft.Floats("w", {1, 1, 2});
    tensor.clear_float_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key("location");
    entry.set_value(location);
    draft.Node("Identity", {"w"}, "W");
  });
}

void AddRings(std::vector<HostileFile>& files) {
  files.push_back({"a node of itself", Make([](Draft& d) { d.Node("Identity", {"W"}, "W"); }), "cycle"});
  files.push_back({"a ring", Make([](Draft& d) {
                     d.Node("Concat", {"other", "W"}, "mixed");
                     d.Node("Transpose", {"mixed"}, "other");
                     d.Node("Slice", {"other", "mixed", "other"}, "W");
                   }),
                   "cycle"});
  files.push_back({"a ring of initial states", Make([](Draft& d) {
                     d.Floats("W", {1, 1, 2});
                     d.Node("Identity", {"b"}, "a");
                     d.Node("Identity", {"a"}, "b");
                     d.rnn.set_input(5, "a");
                   }),
                   "initial_h (input 5"});
  std::string ring;
  files.push_back({"a long ring", Make([](Draft& d) {
                     for (int k = 0; k < kManyNodes; ++k) {
                       d.Node("Identity", {absl::StrCat(k)}, k + 1 == kManyNodes ? "0" : absl::StrCat(k + 1));
                     }
                     d.Node("Identity", {"0"}, "W");
                   }),
                   "cycle"});
}

void AddBombs(std::vector<HostileFile>& files) {
  const auto twice = [](const std::string& name) { return std::vector<std::string>{name, name}; };
  files.push_back({"doubling Concat", Chain("Concat", 62, twice, "axis", 0), "bytes are left"});
  files.push_back({"doubling Concat without end", Chain("Concat", 2000, twice, "axis", 0), "bytes are left"});
  files.push_back({"a Concat of many", Make([](Draft& d) {
                     d.Floats("big", {1 << 14});
                     onnx::NodeProto& node = d.Node("Concat", {}, "W");
                     for (int k = 0; k < 1 << 18; ++k) node.add_input("big");
                     AddAttribute(node, "axis", onnx::AttributeProto::INT).set_i(0);
                   }),
                   "bytes are left"});
  files.push_back({"Gather of ever more axes",
                   Chain("Gather", 40,
                         [](const std::string& name) {
                           return std::vector<std::string>{name, "square"};
                         }),
                   "more than 8 axes"});
  files.push_back({"a Gather of a row many times", Make([](Draft& d) {
                     d.Floats("row", {1, 1 << 12});
                     d.Ints("indices", std::vector<int64_t>(1 << 12));
                     d.Node("Gather", {"row", "indices"}, "W");
                   }),
                   "bytes are left"});
  files.push_back({"many Gathers, each within bounds", Make([](Draft& d) {
                     d.Floats("row", {1, 1 << 8});
                     d.Ints("indices", std::vector<int64_t>(1 << 8));
                     std::vector<std::string> parts;
                     for (int k = 0; k < kManyNodes; ++k) {
                       d.Node("Gather", {"row", "indices"}, absl::StrCat(k));
                       parts.push_back(absl::StrCat(k));
                     }
                     AddAttribute(d.Node("Concat", parts, "W"), "axis", onnx::AttributeProto::INT).set_i(0);
                   }),
                   "bytes are left"});
  files.push_back({"Reshape to huge sizes", Make([](Draft& d) {
                     d.Floats("w", {2});
                     d.Ints("shape", {int64_t{1} << 32, int64_t{1} << 32, 2});
                     d.Node("Reshape", {"w", "shape"}, "W");
                   }),
                   "another number of elements"});
  files.push_back(
      {"Reshape of nothing to huge sizes", Make([](Draft& d) {
         d.Floats("w", {0});
         d.Ints("shape", {kMax, kMax, 0});
         AddAttribute(d.Node("Reshape", {"w", "shape"}, "W"), "allowzero", onnx::AttributeProto::INT).set_i(1);
       }),
       "another number of elements"});
  files.push_back({"a huge shape of no elements", Make([](Draft& d) {
                     d.Floats("w", {0, kMax / 4});
                     AddAttribute(d.Node("Concat", {"w", "w"}, "v"), "axis", onnx::AttributeProto::INT).set_i(1);
                     d.Node("Transpose", {"v"}, "W");
                   }),
                   "can be counted"});
  files.push_back({"a shape as long as the file", Make([](Draft& d) {
                     d.Floats("w", {2});
                     d.Ints("shape", std::vector<int64_t>(1 << 16, 1));
                     d.Node("Reshape", {"w", "shape"}, "W");
                   }),
                   "shape of 65536 integers"});
}

void AddCrowds(std::vector<HostileFile>& files) {
  const auto one = [](const std::string& name) { return std::vector<std::string>{name}; };
  files.push_back({"a long chain", Chain("Identity", kManyNodes, one), "W"});
  files.push_back({"a long chain from an input", Make([](Draft& d) {
                     d.Node("Identity", {"input.1"}, "0");
                     for (int k = 0; k < kManyNodes; ++k) d.Node("Identity", {absl::StrCat(k)}, absl::StrCat(k + 1));
                     d.Node("Identity", {absl::StrCat(kManyNodes)}, "W");
                   }),
                   "node 0 (op_type \"Identity\", name \"/Identity\") from \"input.1\", which is a graph input"});
  files.push_back({"many nodes", Make([](Draft& d) {
                     for (int k = 0; k < kManyNodes; ++k) d.Node("Relu", {"input.1"}, absl::StrCat("r", k));
                   }),
                   "node 0 (op_type \"Relu\", name \"/Relu\")"});
  files.push_back({"many recurrent nodes", Make([](Draft& d) {
                     d.Floats("W", {1, 1, 2});
                     for (int k = 0; k < kManyNodes; ++k) {
                       *d.graph.add_node() = d.rnn;
                       d.graph.mutable_node(k)->set_output(0, absl::StrCat("y", k));
                       d.graph.mutable_node(k)->set_output(1, absl::StrCat("last", k));
                     }
                   }),
                   "node "});
  files.push_back({"a shape of many axes", Make([](Draft& d) {
                     onnx::TensorProto& tensor = d.Floats("W", {2});
                     for (int k = 0; k < 1 << 16; ++k) tensor.add_dims(1);
                   }),
                   "dimensions"});
  files.push_back({"nested Ifs", NestedIfs(30), "op_type \"If\""});
  files.push_back({"Ifs nested beyond protobuf", NestedIfs(3000), "nests graphs too deep"});
}

// A function of one input and one output, called "own.NAME".
onnx::FunctionProto& Function(Draft& draft, const std::string& name) {
  onnx::FunctionProto& function = *draft.model.add_functions();
  function.set_name(name);
  function.set_domain("own");
  function.add_input("in");
  function.add_output("out");
  return function;
}

onnx::NodeProto& AddCall(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& op_type,
                         const std::string& domain, const std::string& input, const std::string& output) {
  onnx::NodeProto& node = *nodes.Add();
  node.set_op_type(op_type);
  node.set_domain(domain);
  node.add_input(input);
  node.add_output(output);
  return node;
}

onnx::AttributeProto& AddReference(onnx::NodeProto& node, const std::string& name, const std::string& of_call) {
  onnx::AttributeProto& attribute = AddAttribute(node, name, onnx::AttributeProto::GRAPH);
  attribute.set_ref_attr_name(of_call);
  return attribute;
}

// Functions "0", "1", ..., each of which calls the next one twice.
std::string Doubling(bool has_output) {
  constexpr int kLevels = 31;
  return Make([&](Draft& d) {
    d.Floats("w", {1, 1, 2});
    for (int level = 0; level < kLevels; ++level) {
      onnx::FunctionProto& function = Function(d, absl::StrCat(level));
      if (!has_output) function.clear_output();
      for (int k = 0; k < 2 && level + 1 < kLevels; ++k) {
        AddCall(*function.mutable_node(), absl::StrCat(level + 1), "own", "in", k == 0 ? "out" : "unused");
      }
      if (level + 1 == kLevels && has_output) AddCall(*function.mutable_node(), "Identity", "", "in", "out");
    }
    AddCall(*d.graph.mutable_node(), "0", "own", "w", "W");
  });
}

void AddFunctions(std::vector<HostileFile>& files) {
  const std::string too_much = "calls of functions come to more than";
  files.push_back({"a function that calls itself", Make([](Draft& d) {
                     d.Floats("w", {1, 1, 2});
                     AddCall(*Function(d, "f").mutable_node(), "f", "own", "in", "out");
                     AddCall(*d.graph.mutable_node(), "f", "own", "w", "W");
                   }),
                   "calls itself"});
  files.push_back({"functions that call two others each", Doubling(true), too_much});
  files.push_back({"such functions that give nothing", Doubling(false), too_much});
  files.push_back({"an attribute that is within itself", Make([](Draft& d) {
                     onnx::NodeProto& chooser = AddCall(*Function(d, "f").mutable_node(), "If", "", "in", "out");
                     AddReference(chooser, "then_branch", "branch");
                     onnx::NodeProto& call = AddCall(*d.graph.mutable_node(), "f", "own", "input.1", "W");
                     onnx::GraphProto& branch = *AddAttribute(call, "branch", onnx::AttributeProto::GRAPH).mutable_g();
                     AddReference(AddCall(*branch.mutable_node(), "If", "", "a", "b"), "then_branch", "branch");
                   }),
                   "\"If\""});
  files.push_back({"attributes that hold each other's graphs", Make([](Draft& d) {
                     constexpr int kLevels = 30;
                     for (int level = 0; level < kLevels; ++level) {
                       onnx::FunctionProto& function = Function(d, absl::StrCat(level));
                       const std::string next = level + 1 < kLevels ? absl::StrCat(level + 1) : "Identity";
                       onnx::NodeProto& call = AddCall(*function.mutable_node(), next, "own", "in", "out");
                       onnx::GraphProto& both = *AddAttribute(call, "g", onnx::AttributeProto::GRAPH).mutable_g();
                       for (const char* name : {"x", "y"}) AddReference(*both.add_node(), name, "g");
                     }
                     onnx::NodeProto& call = AddCall(*d.graph.mutable_node(), "0", "own", "input.1", "W");
                     AddAttribute(call, "g", onnx::AttributeProto::GRAPH).mutable_g()->set_name("g");
                   }),
                   too_much});
  files.push_back({"one attribute many times", Make([](Draft& d) {
                     onnx::NodeProto& node = AddCall(*Function(d, "f").mutable_node(), "Concat", "", "in", "out");
                     for (int k = 0; k < kManyNodes; ++k) AddReference(node, absl::StrCat(k), "a");
                     onnx::NodeProto& call = AddCall(*d.graph.mutable_node(), "f", "own", "input.1", "W");
                     AddAttribute(call, "a", onnx::AttributeProto::STRING).set_s(std::string(1 << 20, 'a'));
                   }),
                   too_much});
  files.push_back({"a long name many times", Make([](Draft& d) {
                     const std::string name(1 << 20, 'a');
                     onnx::NodeProto& node = AddCall(*Function(d, "f").mutable_node(), "Concat", "", "in", "out");
                     for (int k = 0; k < kManyNodes; ++k) node.add_input("in");
                     AddCall(*d.graph.mutable_node(), "f", "own", name, "W").set_name(name);
                   }),
                   too_much});
}

void AddWrongTypes(std::vector<HostileFile>& files) {
  files.push_back({"indices of floats", Make([](Draft& d) {
                     d.Floats("w", {2, 2});
                     d.Node("Gather", {"w", "w"}, "W");
                   }),
                   "no integers"});
  files.push_back({"starts of floats", Make([](Draft& d) {
                     d.Floats("w", {2});
                     d.Node("Slice", {"w", "w", "w"}, "W");
                   }),
                   "a list of integers is needed"});
  files.push_back({"weights of integers", Make([](Draft& d) {
                     d.Ints("w", {1, 2});
                     d.Ints("shape", {1, 1, 2});
                     d.Node("Reshape", {"w", "shape"}, "W");
                   }),
                   "has data_type INT64"});
  files.push_back({"a tensor of strings", Make([](Draft& d) {
                     onnx::TensorProto& tensor = d.Floats("w", {2});
                     tensor.set_data_type(onnx::TensorProto::STRING);
                     d.Node("Identity", {"w"}, "W");
                   }),
                   "from \"w\", which has data_type STRING"});
  files.push_back({"a wrong type of attribute", Make([](Draft& d) {
                     d.Floats("w", {1, 2});
                     AddAttribute(d.Node("Transpose", {"w"}, "W"), "perm", onnx::AttributeProto::STRING).set_s("x");
                   }),
                   "no order of 2 axes"});
  files.push_back({"nodes without inputs", Make([](Draft& d) { d.Node("Concat", {}, "W"); }), "has no input 0"});
  files.push_back({"an empty node", Make([](Draft& d) { d.graph.add_node()->add_output("W"); }), "op_type \"\""});
  files.push_back({"types that differ", Make([](Draft& d) {
                     d.Floats("W", {1, 1, 2}).set_data_type(onnx::TensorProto::DOUBLE);
                     onnx::TensorProto& tensor = *d.graph.mutable_initializer(d.graph.initializer_size() - 1);
                     tensor.clear_float_data();
                     tensor.mutable_double_data()->Resize(2, 1.0);
                   }),
                   "float"});
}

}  // namespace

std::vector<HostileFile> HostileFiles() {
  std::vector<HostileFile> files;
  AddRings(files);
  AddBombs(files);
  AddCrowds(files);
  AddWrongTypes(files);
  AddFunctions(files);
  for (const char* location : {"../w.bin", "/etc/passwd", "a/../../w.bin", "", "none.bin"}) {
    files.push_back(
        {absl::StrCat("external data in '", location, "'"), External(location), "from \"w\", which has its data in"});
  }
  const std::string whole = Make([](Draft& d) {
    d.Floats("w", {1, 1, 2});
    d.Node("Identity", {"w"}, "W");
  });
  files.push_back({"cut off", whole.substr(0, whole.size() - 3), "cut off"});
  files.push_back({"empty", "", "no graph"});
  files.push_back({"text", "no ONNX file\n", "no ONNX model"});
  return files;
}

}  // namespace rnnserve
