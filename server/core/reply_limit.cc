// SPDX-License-Identifier: Apache-2.0
#include "server/core/reply_limit.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/view.h"
#include "server/admission/limit_error.h"
#include "server/core/map_run.h"

namespace rnnserve {
namespace {

// Sequence, task, slice and the fixed part of a state.
constexpr int64_t kBytesOfSequence = 512;

int64_t ClampedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t ClampedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t StateBytes(const OpSpec& spec, int64_t rows) {
  const int64_t values = spec.hidden_size * (spec.kind == CellKind::kLstm ? 2 : 1);
  const int64_t bytes = ClampedProduct(values, static_cast<int64_t>(ByteSize(ComputeType(spec.data_type))));
  return ClampedProduct(ClampedProduct(rows, spec.directions()), ClampedSum(bytes, kBytesOfSequence));
}

// What to change so that the reply fits.
std::string Remedy(const RunPlan& plan, int64_t reply_bytes, int64_t max_bytes) {
  const auto largest = std::max_element(plan.outputs.begin(), plan.outputs.end(),
                                        [](const OutputPlan& a, const OutputPlan& b) { return a.bytes < b.bytes; });
  if (plan.outputs.size() > 1 && reply_bytes - largest->bytes <= max_bytes) {
    return absl::StrCat("leave ", largest->name, " out of `outputs`, or send fewer rows or steps at a time");
  }
  return "send fewer rows or steps at a time";
}

}  // namespace

int64_t ReplyBytes(const RunPlan& plan) {
  int64_t sum = 0;
  for (const OutputPlan& output : plan.outputs) sum = ClampedSum(sum, output.bytes);
  return sum;
}

int64_t BufferBytes(const StackSpec& stack, const RunPlan& plan, size_t layer) {
  int64_t bytes = 0;
  for (size_t k = layer % 2; k < stack.layers.size(); k += 2) bytes = std::max(bytes, BytesAfter(stack, plan, k));
  return bytes;
}

namespace {

// Memory between the layers.
int64_t BetweenBytes(const StackSpec& stack, const RunPlan& plan) {
  if (stack.pipeline != nullptr) return PlaceBytes(stack, plan);
  return stack.layers.size() == 1 ? 0 : ClampedSum(BufferBytes(stack, plan, 0), BufferBytes(stack, plan, 1));
}

absl::Status CheckReplyBytes(const RunPlan& plan, int64_t max_bytes) {
  const int64_t bytes = ReplyBytes(plan);
  if (bytes <= max_bytes) return absl::OkStatus();
  const auto size = [](std::string* out, const OutputPlan& output) {
    absl::StrAppend(out, output.name, " ", ShapeString(output.shape), " ", output.bytes);
  };
  return LimitError(
      "outputs",
      absl::StrCat("the reply would have ", bytes, " bytes of tensors (", absl::StrJoin(plan.outputs, ", ", size),
                   "), but this server sends at most ", max_bytes, "; ", Remedy(plan, bytes, max_bytes)),
      {.limit = max_bytes, .value = bytes});
}

absl::Status CheckSequences(const StackSpec& stack, const RunPlan& plan, int64_t max_sequences) {
  int64_t directions = 1;
  for (const OpSpec& spec : stack.layers) directions = std::max(directions, spec.directions());
  const int64_t max_rows = max_sequences / directions;
  if (plan.rows <= max_rows) return absl::OkStatus();
  return LimitError("inputs[X].shape",
                    absl::StrCat("X has ", plan.rows, " rows, but this server takes at most ", max_rows,
                                 " at a time of this operator; send fewer rows at a time"),
                    {.limit = max_rows, .value = plan.rows});
}

absl::Status CheckShapes(const RunPlan& plan, int64_t max_elements, int64_t max_steps) {
  if (plan.steps > max_steps) {
    return LimitError("inputs[X].shape",
                      absl::StrCat("X has ", plan.steps, " steps, but this server takes at most ", max_steps,
                                   " at a time; send fewer steps at a time"),
                      {.limit = max_steps, .value = plan.steps});
  }
  const auto check = [&](std::string_view field, std::string_view name, const Shape& shape) {
    const int64_t elements = NumElements(shape).value_or(std::numeric_limits<int64_t>::max());
    if (elements <= max_elements) return absl::OkStatus();
    return LimitError(
        field,
        absl::StrCat(View(name), " ", ShapeString(shape), " has ", elements, " elements, but tensors have at most ",
                     max_elements, " here; send fewer rows or steps at a time"),
        {.limit = max_elements, .value = elements});
  };
  absl::Status fits = check("inputs[X].shape", "X", plan.x.shape);
  for (const TensorView& input : plan.data) {
    if (fits.ok()) fits = check("inputs", "an input", input.shape);
  }
  for (const OutputPlan& output : plan.outputs) {
    if (fits.ok()) fits = check("outputs", output.name, output.shape);
  }
  return fits;
}

absl::Status CheckBetween(int64_t bytes, int64_t max_bytes) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return LimitError("inputs[X].shape",
                    absl::StrCat("what the layers give each other would take ", bytes, " bytes, but this server has ",
                                 max_bytes, " for all requests; send fewer rows or steps at a time"),
                    {.limit = max_bytes, .value = bytes});
}

}  // namespace

int64_t RunBytes(const StackSpec& stack, const RunPlan& plan) {
  int64_t states = 0;  // those of one layer go before the next one's are made
  for (const OpSpec& spec : stack.layers) states = std::max(states, StateBytes(spec, plan.rows));
  return ClampedSum(ClampedSum(ReplyBytes(plan), BetweenBytes(stack, plan)), states);
}

absl::Status CheckSize(const StackSpec& stack, const RunPlan& plan, const SizeLimits& limits) {
  absl::Status fits = CheckSequences(stack, plan, limits.sequences);
  if (fits.ok()) fits = CheckShapes(plan, limits.tensor_elements, limits.steps);
  if (fits.ok()) fits = CheckReplyBytes(plan, limits.reply_bytes);
  if (fits.ok()) fits = CheckBetween(BetweenBytes(stack, plan), limits.bytes_between);
  return fits;
}

}  // namespace rnnserve
