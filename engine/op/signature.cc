// SPDX-License-Identifier: Apache-2.0
#include "engine/op/signature.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

constexpr size_t kNamesInTexts = 12;

}  // namespace

Shape StateShape(const OpSpec& spec) {
  if (spec.batch_first()) return {kDimN, spec.directions(), spec.hidden_size};
  return {spec.directions(), kDimN, spec.hidden_size};
}

Shape YShape(const OpSpec& spec, bool batch_first) {
  if (spec.dialect == Dialect::kOpenVino) return {kDimN, spec.directions(), kDimT, spec.hidden_size};
  if (batch_first || spec.layout == 1) return {kDimN, kDimT, spec.directions(), spec.hidden_size};
  return {kDimT, spec.directions(), kDimN, spec.hidden_size};
}

TensorNames NamesOf(Dialect dialect, CellKind kind) {
  const bool lstm = kind == CellKind::kLstm;
  if (dialect == Dialect::kOpenVino) {
    return {"sequence_lengths", "initial_hidden_state", lstm ? "initial_cell_state" : "", "", "Y", "Ho",
            lstm ? "Co" : ""};
  }
  return {"sequence_lens", "initial_h", lstm ? "initial_c" : "", lstm ? "P" : "", "Y", "Y_h", lstm ? "Y_c" : ""};
}

bool IsWeightName(std::string_view name) { return name == "W" || name == "R" || name == "B" || name == "P"; }

absl::Status CheckInputNames(std::span<const NamedTensor> inputs, std::span<const std::string_view> known,
                             std::string_view owner) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const std::string_view name = inputs[k].name;
    const auto takes = [&] {
      const auto first = known.first(std::min(known.size(), kNamesInTexts));
      return absl::StrCat(View(owner), " takes ",
                          absl::StrJoin(first, ", ", [](std::string* out, std::string_view one) { out->append(one); }),
                          first.size() < known.size() ? " and so on" : "");
    };
    if (name.empty()) {
      return FieldError(absl::StrCat("inputs[", k, "].name"), absl::StrCat("input ", k, " has no name; ", takes()));
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return FieldError(InputField(name), absl::StrCat("there is no input ", Quoted(name), "; ", takes()));
    }
    // Those before are known and differ, so there are few of them.
    if (std::ranges::find(inputs.first(k), name, &NamedTensor::name) !=
        inputs.begin() + static_cast<std::ptrdiff_t>(k)) {
      return FieldError(InputField(name), absl::StrCat("input ", View(name), " is given twice: keep one of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
