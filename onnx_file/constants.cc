// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/constants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/fold.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

constexpr int64_t kComputedAtLeast = int64_t{1} << 20;
constexpr int64_t kComputedForStored = 8;

absl::Status NotFixed(const std::string& text) { return absl::NotFoundError(text); }

std::string LabelOf(const Scope::Definition& definition) {
  return definition.scope->Label(*definition.node, definition.node_index);
}

// The tensor that the file holds for it; null if it has to be computed.
const onnx::TensorProto* StoredTensor(const Scope::Definition& definition) {
  if (definition.tensor != nullptr) return definition.tensor;
  if (!IsOnnxOp(*definition.node, "Constant")) return nullptr;
  const onnx::AttributeProto* value = FindAttribute(*definition.node, "value");
  return value != nullptr && value->has_t() ? &value->t() : nullptr;
}

// Why `definition` has no value, since its input `name` has none. What is computed names its own reason, so that the
// text of a long chain stays short.
absl::Status FailedInput(const Scope::Definition& definition, const std::string& name, const Scope::Definition& source,
                         const absl::Status& status) {
  if (StoredTensor(source) == nullptr) return status;
  return BadFile(
      absl::StrCat("is computed by ", LabelOf(definition), " from ", Quoted(name), ", which ", status.message()));
}

}  // namespace

absl::StatusOr<OnnxTensor> Constants::Value(const Scope& scope, const std::string& name) {
  const Definition* wanted = scope.Find(name);
  if (wanted == nullptr) return NotFixed("is neither a graph input nor an initializer");
  if (wanted->is_input()) return NotFixed("is a graph input");
  Resolve(*wanted);
  return results_.at(wanted);
}

// Depth first on a stack of its own: a hostile chain is as long as the file.
void Constants::Resolve(const Definition& wanted) {
  std::vector<const Definition*> waiting = {&wanted};
  while (!results_.contains(&wanted)) {
    const Definition& next = *waiting.back();
    if (results_.contains(&next)) {
      waiting.pop_back();
    } else if (StoredTensor(next) != nullptr || open_.erase(&next) > 0) {
      results_.emplace(&next, Evaluate(next));
      waiting.pop_back();
    } else {
      open_.insert(&next);
      const absl::Status added = AddInputs(next, waiting);
      if (added.ok()) continue;
      for (const Definition* failed : open_) results_.emplace(failed, added);
      open_.clear();
    }
  }
}

absl::Status Constants::AddInputs(const Definition& definition, std::vector<const Definition*>& waiting) const {
  const onnx::NodeProto& node = *definition.node;
  if (!IsFoldable(node) || definition.output != 0) {
    return NotFixed(absl::StrCat("is computed by ", LabelOf(definition), ", which is not done when a file is loaded"));
  }
  for (const std::string& input : node.input()) {
    if (input.empty()) continue;
    const Definition* source = definition.scope->Find(input);
    if (source == nullptr || source->is_input()) {
      return NotFixed(absl::StrCat("is computed by ", LabelOf(definition), " from ", Quoted(input), ", which is ",
                                   source == nullptr ? "neither a graph input nor an initializer" : "a graph input"));
    }
    if (open_.contains(source)) {
      return BadFile(absl::StrCat("is computed by ", LabelOf(definition), " from ", Quoted(input),
                                  ", which is computed from it: the graph has a cycle"));
    }
    const auto result = results_.find(source);
    if (result == results_.end()) {
      waiting.push_back(source);
    } else if (!result->second.ok()) {
      return FailedInput(definition, input, *source, result->second.status());
    }
  }
  return absl::OkStatus();
}

Constants::Result Constants::Evaluate(const Definition& definition) {
  if (const onnx::TensorProto* stored = StoredTensor(definition)) return Stored(*stored);
  const onnx::NodeProto& node = *definition.node;
  std::vector<const OnnxTensor*> inputs;
  for (const std::string& name : node.input()) {
    const Definition* source = name.empty() ? nullptr : definition.scope->Find(name);
    const Result* input = source == nullptr ? nullptr : &results_.at(source);
    if (input != nullptr && !input->ok()) return FailedInput(definition, name, *source, input->status());
    inputs.push_back(input == nullptr ? nullptr : &**input);
  }
  const int64_t allowance = Allowance();
  int64_t left = allowance;
  Result folded = Fold(node, inputs, left);
  computed_bytes_ += allowance - left;
  if (!folded.ok()) {
    return BadFile(absl::StrCat("is computed by ", LabelOf(definition), ", which ", folded.status().message()));
  }
  return folded;
}

absl::StatusOr<OnnxTensor> Constants::Stored(const onnx::TensorProto& tensor) {
  const auto read_tensor = IsNarrowInteger(tensor.data_type()) ? ReadNarrowIntegers : ReadOnnxTensor;
  Result read = read_tensor(tensor, folder_, max_bytes_ - stored_bytes_ - computed_bytes_);
  if (read.ok()) stored_bytes_ += static_cast<int64_t>(read->view.data.size());
  return read;
}

int64_t Constants::Allowance() const {
  const int64_t for_stored = std::min(stored_bytes_, max_bytes_) * kComputedForStored;
  return std::min(kComputedAtLeast + for_stored, max_bytes_ - stored_bytes_) - computed_bytes_;
}

}  // namespace rnnserve
