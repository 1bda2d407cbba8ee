// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/tensor_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"

namespace rnnserve::kserve {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using InputMessage = ModelInferRequest::InferInputTensor;

constexpr int kMaxInputs = 256;
constexpr size_t kMaxNameBytes = 128;
constexpr int kMaxRank = 8;

struct TypeName {
  DataType type;
  std::string_view text;
  std::string_view list;  // the typed list its elements may come in; "": none
};
constexpr std::array<TypeName, 6> kTypes = {{{DataType::kFloat, "FP32", "fp32_contents"},
                                             {DataType::kDouble, "FP64", "fp64_contents"},
                                             {DataType::kFloat16, "FP16", ""},
                                             {DataType::kBFloat16, "BF16", ""},
                                             {DataType::kInt32, "INT32", "int_contents"},
                                             {DataType::kInt64, "INT64", "int64_contents"}}};

struct TypedList {
  std::string_view name;
  int64_t count;
  std::span<const std::byte> bytes;
};

std::vector<TypedList> ListsIn(const InferTensorContents& contents) {
  std::vector<TypedList> lists;
  const auto add = [&](std::string_view name, const auto& list) {
    if (list.empty()) return;
    lists.push_back({name, list.size(), std::as_bytes(std::span(list.data(), static_cast<size_t>(list.size())))});
  };
  add("bool_contents", contents.bool_contents());
  add("int_contents", contents.int_contents());
  add("int64_contents", contents.int64_contents());
  add("uint_contents", contents.uint_contents());
  add("uint64_contents", contents.uint64_contents());
  add("fp32_contents", contents.fp32_contents());
  add("fp64_contents", contents.fp64_contents());
  if (!contents.bytes_contents().empty()) lists.push_back({"bytes_contents", contents.bytes_contents_size(), {}});
  return lists;
}

// One input; `raw`: its entry of raw_input_contents, null if the request has none.
class InputDecoder {
 public:
  InputDecoder(const InputMessage& message, const std::string* raw)
      : message_(message), raw_(raw), path_(absl::StrCat("inputs[", message.name(), "]")) {}

  absl::StatusOr<TensorView> Decode() {
    absl::Status status = DecodeType();
    if (status.ok()) status = DecodeShape();
    if (status.ok()) status = raw_ != nullptr ? DecodeRaw() : DecodeContents();
    if (!status.ok()) return status;
    return std::move(view_);
  }

 private:
  absl::Status Error(std::string_view field, std::string_view text) const {
    return FieldError(absl::StrCat(path_, ".", View(field)), text);
  }

  absl::Status DecodeType() {
    const auto known = std::ranges::find(kTypes, message_.datatype(), &TypeName::text);
    if (known == kTypes.end()) {
      return Error("datatype", absl::StrCat("datatype is none of FP32, FP64, FP16, BF16, INT32, INT64, which are all "
                                            "that the models of this server have"));
    }
    type_ = &*known;
    view_.type = known->type;
    return absl::OkStatus();
  }

  absl::Status DecodeShape() {
    if (message_.shape_size() > kMaxRank) {
      return Error("shape", absl::StrCat("the shape has ", message_.shape_size(), " dimensions; tensors have at most ",
                                         kMaxRank));
    }
    view_.shape.assign(message_.shape().begin(), message_.shape().end());
    if (std::ranges::any_of(view_.shape, [](int64_t dimension) { return dimension < 0; })) {
      return Error("shape", absl::StrCat("shape ", ShapeString(view_.shape), " has a negative dimension"));
    }
    const std::optional<int64_t> elements = NumElements(view_.shape), bytes = NumBytes(view_.type, view_.shape);
    if (!elements || !bytes) {
      return Error("shape", absl::StrCat("shape ", ShapeString(view_.shape), " of ", View(type_->text),
                                         " is more than 2^63 - 1 bytes"));
    }
    elements_ = *elements;
    bytes_ = *bytes;
    return absl::OkStatus();
  }

  absl::Status DecodeRaw() {
    if (message_.has_contents() && !ListsIn(message_.contents()).empty()) {
      return Error("contents", "the elements come twice, in contents and raw_input_contents; send them in one of them");
    }
    if (static_cast<int64_t>(raw_->size()) != bytes_) {
      return FieldError("raw_input_contents",
                        absl::StrCat("the entry of ", message_.name(), " has ", raw_->size(), " bytes, but shape ",
                                     ShapeString(view_.shape), " of ", View(type_->text), " takes ", bytes_));
    }
    view_.data = std::as_bytes(std::span(*raw_));
    return absl::OkStatus();
  }

  absl::Status DecodeContents() {
    const std::vector<TypedList> lists = ListsIn(message_.contents());
    if (lists.empty() && elements_ == 0) return absl::OkStatus();
    const std::string expected = type_->list.empty()
                                     ? "raw_input_contents (it has no list in contents)"
                                     : absl::StrCat("raw_input_contents or contents.", View(type_->list));
    if (lists.size() != 1 || lists[0].name != type_->list) {
      return Error("contents", absl::StrCat(View(type_->text), " elements come in ", expected, ", but ",
                                            lists.empty()       ? "none came"
                                            : lists.size() == 1 ? absl::StrCat(View(lists[0].name), " came")
                                                                : "several lists came"));
    }
    if (lists[0].count != elements_) {
      return Error("contents", absl::StrCat(View(lists[0].name), " has ", lists[0].count, " values, but shape ",
                                            ShapeString(view_.shape), " takes ", elements_));
    }
    view_.data = lists[0].bytes;
    return absl::OkStatus();
  }

  const InputMessage& message_;
  const std::string* const raw_;
  const std::string path_;
  const TypeName* type_ = nullptr;
  TensorView view_;
  int64_t elements_ = 0;
  int64_t bytes_ = 0;
};

absl::Status CheckCounts(const ModelInferRequest& request) {
  if (request.inputs_size() > kMaxInputs) {
    return FieldError("inputs", absl::StrCat("inputs has ", request.inputs_size(),
                                             " tensors; no model takes more than ", kMaxInputs));
  }
  const int raw = request.raw_input_contents_size();
  if (raw == 0 || raw == request.inputs_size()) return absl::OkStatus();
  return FieldError("raw_input_contents", absl::StrCat("raw_input_contents has ", raw, " entries for ",
                                                       request.inputs_size(), " inputs; send one for each"));
}

absl::Status CheckInput(const InputMessage& input, int index) {
  if (input.name().empty() || input.name().size() > kMaxNameBytes) {
    return FieldError(absl::StrCat("inputs[", index, "].name"),
                      input.name().empty() ? "the input has no name"
                                           : absl::StrCat("the name has ", input.name().size(), " bytes; at most ",
                                                          kMaxNameBytes, " are taken"));
  }
  if (!input.parameters().contains("shared_memory_region")) return absl::OkStatus();
  return FieldError(absl::StrCat("inputs[", input.name(), "].parameters[shared_memory_region]"),
                    "this server shares no memory with callers; send the elements in raw_input_contents");
}

bool IsControl(const InputMessage& input) {
  return (input.datatype() == "UINT64" && input.name() == kSequenceIdTensor) ||
         (input.datatype() == "UINT32" && input.name() == kSequenceControlTensor);
}

template <typename Number, typename List>
std::optional<uint64_t> OneElement(const std::string* raw, const List& list) {
  if (raw == nullptr) return list.size() == 1 ? std::optional<uint64_t>(list[0]) : std::nullopt;
  Number number = 0;
  if (raw->size() != sizeof(number)) return std::nullopt;
  std::memcpy(&number, raw->data(), sizeof(number));
  return number;
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> DecodeControl(const ModelInferRequest& request, std::string_view name) {
  if (absl::Status status = CheckCounts(request); !status.ok()) return status;
  for (int k = 0; k < request.inputs_size(); ++k) {
    const InputMessage& input = request.inputs(k);
    if (input.name() != name || !IsControl(input)) continue;
    const std::string* raw = request.raw_input_contents_size() > 0 ? &request.raw_input_contents(k) : nullptr;
    const std::optional<uint64_t> value = input.datatype() == "UINT64"
                                              ? OneElement<uint64_t>(raw, input.contents().uint64_contents())
                                              : OneElement<uint32_t>(raw, input.contents().uint_contents());
    if (value) return value;
    return FieldError(absl::StrCat("inputs[", View(name), "]"), absl::StrCat(View(name), " has one element"));
  }
  return std::optional<uint64_t>();
}

std::string_view TypeText(DataType type) {
  const auto known = std::ranges::find(kTypes, type, &TypeName::type);
  return known == kTypes.end() ? "" : known->text;
}

absl::StatusOr<std::vector<NamedTensor>> DecodeInputs(const ModelInferRequest& request) {
  if (absl::Status status = CheckCounts(request); !status.ok()) return status;
  std::vector<NamedTensor> decoded;
  decoded.reserve(static_cast<size_t>(request.inputs_size()));
  for (int k = 0; k < request.inputs_size(); ++k) {
    const InputMessage& input = request.inputs(k);
    if (IsControl(input)) continue;
    if (absl::Status status = CheckInput(input, k); !status.ok()) return status;
    const std::string* raw = request.raw_input_contents_size() > 0 ? &request.raw_input_contents(k) : nullptr;
    absl::StatusOr<TensorView> view = InputDecoder(input, raw).Decode();
    if (!view.ok()) return view.status();
    decoded.push_back({input.name(), *std::move(view)});
  }
  return decoded;
}

}  // namespace rnnserve::kserve
