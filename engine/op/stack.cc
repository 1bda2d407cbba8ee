// SPDX-License-Identifier: Apache-2.0
// ResolveStack: each layer by itself, then whether they fit together.
#include "engine/op/stack.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/signature.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

std::string LayerLabel(size_t layer, const OpSpec& spec) { return absl::StrCat("layer ", layer, " (", spec.name, ")"); }

// Whether `next` can take what `before` gives.
absl::Status CheckJoint(const OpSpec& before, const OpSpec& next, size_t layer) {
  const std::string label = LayerLabel(layer, next);
  if (before.dialect != Dialect::kOnnx || next.dialect != Dialect::kOnnx) {
    return absl::InvalidArgumentError(
        absl::StrCat(label, ": a model of several layers is made of ONNX operators; load each layer by itself"));
  }
  if (before.data_type != next.data_type) {
    return absl::InvalidArgumentError(
        absl::StrCat(label, " has weights of ", View(DataTypeName(next.data_type)), ", but the layer before it gives ",
                     View(DataTypeName(before.data_type)), ": all layers share one type"));
  }
  // Sizes of weights that are in memory: no overflow.
  const int64_t width = before.directions() * before.hidden_size;
  if (next.input_size != width) {
    return absl::InvalidArgumentError(absl::StrCat(
        label, " takes ", next.input_size, " columns (the last axis of its W), but the layer before it gives ",
        before.directions(), " * ", before.hidden_size, " = ", width, " (directions times hidden size)"));
  }
  return absl::OkStatus();
}

// Whether a pipeline gives the layer what it takes, and takes what it gives.
absl::Status CheckPlaces(const Pipeline& pipeline, const OpSpec& spec, size_t layer) {
  const Place& x = pipeline.places[static_cast<size_t>(pipeline.layer_x[layer])];
  if (x.width != spec.input_size || x.type != spec.data_type) {
    return absl::InvalidArgumentError(absl::StrCat(
        LayerLabel(layer, spec), " takes ", spec.input_size, " columns of ", View(DataTypeName(spec.data_type)),
        " (the last axis of its W), but what comes before it gives ", x.width, " of ", View(DataTypeName(x.type))));
  }
  const int y = pipeline.layer_y[layer];
  const int64_t width = spec.directions() * spec.hidden_size;
  if (y < 0 || pipeline.places[static_cast<size_t>(y)].width == width) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(LayerLabel(layer, spec), " gives ", width,
                                                 " numbers a step (directions ",
                                                 "times hidden size), but its file takes others"));
}

}  // namespace

absl::StatusOr<StackSpec> ResolveStack(std::span<const LayerView> layers, bool batch_first, PipelinePtr pipeline,
                                       FileNamesPtr file_names) {
  if (layers.empty() || layers.size() > kMaxLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model has 1 to ", kMaxLayers, " layers, but ", layers.size(), " came"));
  }
  StackSpec stack;
  stack.batch_first = batch_first;
  stack.pipeline = std::move(pipeline);
  stack.file_names = std::move(file_names);
  for (const LayerView& view : layers) {
    absl::StatusOr<OpSpec> spec = ResolveOperator(view.op, view.tensors);
    if (!spec.ok()) {
      if (layers.size() == 1 && view.label.empty()) return spec.status();
      const std::string label =
          view.label.empty() ? absl::StrCat("layer ", stack.layers.size()) : std::string(view.label);
      const absl::Status status(spec.status().code(), absl::StrCat(label, ": ", spec.status().message()));
      const std::string field = absl::StrCat("layers[", stack.layers.size(), "]");
      const std::optional<std::string> own = FieldOf(spec.status());
      return WithField(status, own ? absl::StrCat(field, ".", *own) : field);
    }
    if (stack.pipeline != nullptr) {
      RETURN_IF_ERROR(CheckPlaces(*stack.pipeline, *spec, stack.layers.size()));
    } else if (!stack.layers.empty()) {
      absl::Status fits = CheckJoint(stack.layers.back(), *spec, stack.layers.size());
      if (!fits.ok()) return WithField(std::move(fits), absl::StrCat("layers[", stack.layers.size(), "]"));
    }
    stack.layers.push_back(*std::move(spec));
  }
  stack.output_slots = std::make_shared<const std::vector<OutputSlot>>(OutputSlots(stack));
  return stack;
}

}  // namespace rnnserve
