// SPDX-License-Identifier: Apache-2.0
#include "engine/op/file_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rnnserve {

const PipelineInput& FileNames::x() const {
  return *std::ranges::find(inputs, PipelineInput::Kind::kSteps, &PipelineInput::kind);
}

const PipelineInput* FileNames::lengths() const {
  const auto found = std::ranges::find(inputs, PipelineInput::Kind::kLengths, &PipelineInput::kind);
  return found == inputs.end() ? nullptr : &*found;
}

const PipelineInput* FileNames::FindInput(std::string_view name) const {
  const auto found = std::ranges::find(inputs, name, &PipelineInput::name);
  return found == inputs.end() ? nullptr : &*found;
}

bool FileNames::HasOutput(std::string_view name) const {
  return std::ranges::find(outputs, name, &FileOutput::name) != outputs.end();
}

std::string FileNames::CanonicalText() const {
  std::string text;
  const auto add_tensor = [&](const std::string& name, DataType type, const Shape& shape) {
    absl::StrAppend(&text, name.size(), ":", name, " ", static_cast<int>(type), " ", shape.size(), " ");
    for (const int64_t axis : shape) absl::StrAppend(&text, axis, " ");
  };
  for (const PipelineInput& input : inputs) {
    add_tensor(input.name, input.type, input.shape);
    absl::StrAppend(&text, static_cast<int>(input.kind), " ", input.layers.size(), " ");
    for (const size_t layer : input.layers) absl::StrAppend(&text, layer, " ");
  }
  absl::StrAppend(&text, "> ");
  for (const FileOutput& output : outputs) {
    add_tensor(output.name, output.type, output.shape);
    absl::StrAppend(&text, static_cast<int>(output.kind), " ", output.layer ? static_cast<int64_t>(*output.layer) : -1,
                    " ");
    for (const OutputAxis axis : output.order) absl::StrAppend(&text, static_cast<int>(axis), " ");
  }
  return text;
}

}  // namespace rnnserve
