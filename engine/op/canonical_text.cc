// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/view.h"
#include "engine/op/activations.h"
#include "engine/op/op_spec.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

std::string_view DirectionName(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kReverse:
      return "reverse";
    case Direction::kBidirectional:
      return "bidirectional";
  }
  return "";
}

size_t FunctionCount(CellKind kind) { return kind == CellKind::kLstm ? 3 : kind == CellKind::kGru ? 2 : 1; }

}  // namespace

// Seventeen digits bring every double back; models' fingerprints hang on this text: a change of it is a change of them
// all.
std::string OpSpec::CanonicalText() const {
  std::string text = "rnnserve operator 1\n";
  absl::StrAppend(&text, "operator ", op_type, "-", version, "\n");
  absl::StrAppend(&text, "direction ", View(DirectionName(direction)), "\n");
  absl::StrAppend(&text, "data_type ", View(DataTypeName(data_type)), "\n");
  absl::StrAppend(&text, "sizes ", input_size, " ", hidden_size, "\n");
  absl::StrAppend(&text, "bias ", has_bias, "\npeephole ", has_peephole, "\nlayout ", layout, "\n");
  for (size_t d = 0; d < static_cast<size_t>(directions()); ++d) {
    for (size_t k = 0; k < FunctionCount(kind); ++k) {
      const Activation& function = activations[d][k];
      absl::StrAppend(&text, "activation ", View(ActivationName(function.kind)),
                      absl::StrFormat(" %.17g %.17g\n", function.alpha, function.beta));
    }
  }
  absl::StrAppendFormat(&text, "clip %.17g\n", clip);
  absl::StrAppend(&text, "input_forget ", input_forget, "\nlinear_before_reset ", linear_before_reset,
                  "\ny_by_default ", y_by_default, "\n");
  return text;
}

}  // namespace rnnserve
