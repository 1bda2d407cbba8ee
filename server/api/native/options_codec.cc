// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/options_codec.h"

#include "absl/strings/str_cat.h"
#include "base/field_error.h"

namespace rnnserve {

absl::StatusOr<OptionalOptions> DecodeOptions(const v1::Options& message) {
  OptionalOptions options;
  if (message.has_clip_cell_input()) options.clip_cell_input = message.clip_cell_input();
  if (message.has_deterministic()) options.deterministic = message.deterministic();
  if (message.has_allow_reduced_precision()) options.allow_reduced_precision = message.allow_reduced_precision();
  switch (message.empty_row_state()) {
    case v1::EMPTY_ROW_STATE_UNSPECIFIED:
      break;
    case v1::ZEROS:
      options.empty_row_state = EmptyRowState::kZeros;
      break;
    case v1::INITIAL:
      options.empty_row_state = EmptyRowState::kInitial;
      break;
    default:
      return FieldError("options.empty_row_state", absl::StrCat(static_cast<int>(message.empty_row_state()),
                                                                " is neither ZEROS (1) nor INITIAL (2)"));
  }
  if (!v1::Options::WeightType_IsValid(message.weight_type())) {
    return FieldError("options.weight_type", absl::StrCat(static_cast<int>(message.weight_type()),
                                                          " is neither AS_GIVEN (1), FLOAT16 (2), BFLOAT16 (3) nor "
                                                          "INT8 (4)"));
  }
  // The wire counts from 1.
  if (message.weight_type() != v1::Options::WEIGHT_TYPE_UNSPECIFIED) {
    options.weights = static_cast<WeightType>(static_cast<int>(message.weight_type()) - 1);
  }
  return options;
}

void EncodeOptions(const OptionalOptions& options, v1::Options& message) {
  if (options.clip_cell_input) message.set_clip_cell_input(*options.clip_cell_input);
  if (options.deterministic) message.set_deterministic(*options.deterministic);
  if (options.allow_reduced_precision) message.set_allow_reduced_precision(*options.allow_reduced_precision);
  if (options.weights) {
    message.set_weight_type(static_cast<v1::Options::WeightType>(static_cast<int>(*options.weights) + 1));
  }
  if (options.empty_row_state) {
    message.set_empty_row_state(*options.empty_row_state == EmptyRowState::kInitial ? v1::INITIAL : v1::ZEROS);
  }
}

}  // namespace rnnserve
