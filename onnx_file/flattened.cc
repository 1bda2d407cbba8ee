// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/flattened.h"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_file/node.h"

namespace rnnserve {

onnx::GraphProto Flattened(const onnx::GraphProto& main, const InspectedNode* node, int& index) {
  std::vector<const onnx::NodeProto*> nodes;
  for (const onnx::NodeProto& one : main.node()) nodes.push_back(&one);
  onnx::GraphProto flat;
  *flat.mutable_input() = main.input();
  *flat.mutable_output() = main.output();
  *flat.mutable_value_info() = main.value_info();
  *flat.mutable_initializer() = main.initializer();
  std::deque<onnx::NodeProto> made;
  int first = 0;  // of the innermost graph
  for (const auto& [place, name] : node == nullptr ? decltype(node->places)() : node->places) {
    const onnx::NodeProto& chooser = *nodes[static_cast<size_t>(first + place)];
    const onnx::GraphProto& branch = FindAttribute(chooser, name)->g();
    flat.mutable_value_info()->MergeFrom(branch.value_info());
    flat.mutable_initializer()->MergeFrom(branch.initializer());
    std::vector<const onnx::NodeProto*> inside;
    for (const onnx::NodeProto& one : branch.node()) inside.push_back(&one);
    for (int k = 0; k < std::min(chooser.output_size(), branch.output_size()); ++k) {
      onnx::NodeProto& handed = made.emplace_back();
      handed.set_op_type("Identity");
      handed.set_name(absl::StrCat(chooser.name(), ".", k));
      handed.add_input(branch.output(k).name());
      handed.add_output(chooser.output(k));
      inside.push_back(&handed);
    }
    first += place;
    nodes.erase(nodes.begin() + first);
    nodes.insert(nodes.begin() + first, inside.begin(), inside.end());
  }
  for (const onnx::NodeProto* one : nodes) *flat.add_node() = *one;
  if (node != nullptr) index = first + node->index;
  return flat;
}

}  // namespace rnnserve
