// SPDX-License-Identifier: Apache-2.0
#include "engine/op/wording.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/tensor.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxBytes = 64;
constexpr size_t kMaxAxes = 8;

}  // namespace

std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxBytes) return absl::CHexEscape(View(text));
  return absl::StrCat(absl::CHexEscape(View(text.substr(0, kMaxBytes))), "...");
}

std::string Quoted(std::string_view text) { return absl::StrCat("\"", Shortened(text), "\""); }

std::string ShortShape(std::span<const int64_t> shape) {
  if (shape.size() <= kMaxAxes) return ShapeString(shape);
  std::string text = ShapeString(shape.first(kMaxAxes));
  text.pop_back();
  return absl::StrCat(text, ", ...]");
}

std::string InputField(std::string_view name) { return absl::StrCat("inputs[", Shortened(name), "]"); }
std::string OutputField(std::string_view name) { return absl::StrCat("outputs[", Shortened(name), "]"); }
std::string AttributeField(std::string_view name) { return absl::StrCat("operator.attributes[", Shortened(name), "]"); }

}  // namespace rnnserve
