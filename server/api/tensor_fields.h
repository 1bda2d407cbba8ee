// SPDX-License-Identifier: Apache-2.0
// What tensors of all dialects have in common: a name, a shape, and elements as raw bytes or in one of several typed
// lists. A dialect's decoder derives from TensorFields and adds its types and its words.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "server/core/call.h"

namespace rnnserve {

static_assert(std::endian::native == std::endian::little, "raw tensor data is little-endian, and is used as it comes");

// What is wrong with a tensor's name; "": nothing. `unnamed`: what to say where it is empty.
inline std::string NameMistake(std::string_view name, std::string_view unnamed) {
  constexpr size_t kMaxNameBytes = 128;
  if (name.empty()) return std::string(unnamed);
  if (name.size() <= kMaxNameBytes) return "";
  return absl::StrCat("the name has ", name.size(), " bytes; at most ", kMaxNameBytes, " are taken");
}

// A typed list with elements, whatever their type.
struct TypedList {
  std::string_view field;
  int64_t count;
  std::span<const std::byte> bytes;
};
using TypedLists = absl::InlinedVector<TypedList, 4>;

template <typename List>
void AddUnlessEmpty(std::string_view field, const List& list, TypedLists& lists) {
  if (list.empty()) return;
  lists.push_back({field, list.size(), std::as_bytes(std::span(list.data(), static_cast<size_t>(list.size())))});
}

class TensorFields {
 protected:
  // The tensor's own path is list[name], e.g. inputs[X]. Both outlive this.
  TensorFields(std::string_view list, std::string_view name) : list_(list), name_(name) {}

  std::string path() const { return absl::StrCat(View(list_), "[", View(name_), "]"); }
  absl::Status Error(std::string_view field, std::string_view text) const {
    return FieldError(absl::StrCat(path(), ".", View(field)), text);
  }

  void SetType(DataType type, std::string_view name) {
    view_.type = type;
    type_name_ = name;
  }
  absl::string_view type_name() const { return View(type_name_); }

  absl::Status SetShape(const google::protobuf::RepeatedField<int64_t>& shape) {
    constexpr int kMaxRank = 8;
    if (shape.size() > kMaxRank) {
      return Error("shape",
                   absl::StrCat("the shape has ", shape.size(), " dimensions; tensors have at most ", kMaxRank));
    }
    view_.shape.assign(shape.begin(), shape.end());
    if (std::ranges::any_of(view_.shape, [](int64_t dimension) { return dimension < 0; })) {
      return Error("shape", absl::StrCat("shape ", ShapeString(view_.shape), " has a negative dimension"));
    }
    const std::optional<int64_t> elements = NumElements(view_.shape), bytes = NumBytes(view_.type, view_.shape);
    if (!elements || !bytes) {
      return Error("shape", absl::StrCat("shape ", ShapeString(view_.shape), " of ", type_name(),
                                         " is more than 2^63 - 1 bytes"));
    }
    elements_ = *elements;
    bytes_ = *bytes;
    return absl::OkStatus();
  }

  // False: it has not the size of the shape.
  bool SetRaw(const std::string& raw) {
    view_.data = std::as_bytes(std::span(raw));
    return static_cast<int64_t>(raw.size()) == bytes_;
  }
  std::string RawMistake(std::string_view subject, const std::string& raw) const {
    return absl::StrCat(View(subject), " has ", raw.size(), " bytes, but shape ", ShapeString(view_.shape), " of ",
                        type_name(), " takes ", bytes_);
  }

  absl::Status CheckCount(const TypedList& list, std::string_view field) const {
    if (list.count == elements_) return absl::OkStatus();
    return Error(field, absl::StrCat(View(list.field), " has ", list.count, " values, but shape ",
                                     ShapeString(view_.shape), " takes ", elements_));
  }

  TensorView view_;
  int64_t elements_ = 0;
  int64_t bytes_ = 0;

 private:
  const std::string_view list_;
  const std::string_view name_;
  std::string_view type_name_;
};

}  // namespace rnnserve
