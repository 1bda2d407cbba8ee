// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/tensor_codec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "server/api/tensor_fields.h"

namespace rnnserve::kserve {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using InputMessage = ModelInferRequest::InferInputTensor;

constexpr int kMaxInputs = 256;

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

TypedLists ListsIn(const InferTensorContents& contents) {
  TypedLists lists;
  AddUnlessEmpty("bool_contents", contents.bool_contents(), lists);
  AddUnlessEmpty("int_contents", contents.int_contents(), lists);
  AddUnlessEmpty("int64_contents", contents.int64_contents(), lists);
  AddUnlessEmpty("uint_contents", contents.uint_contents(), lists);
  AddUnlessEmpty("uint64_contents", contents.uint64_contents(), lists);
  AddUnlessEmpty("fp32_contents", contents.fp32_contents(), lists);
  AddUnlessEmpty("fp64_contents", contents.fp64_contents(), lists);
  if (!contents.bytes_contents().empty()) lists.push_back({"bytes_contents", contents.bytes_contents_size(), {}});
  return lists;
}

// One input; `raw`: its entry of raw_input_contents, null if the request has none.
class InputDecoder : private TensorFields {
 public:
  InputDecoder(const InputMessage& message, const std::string* raw)
      : TensorFields("inputs", message.name()), message_(message), raw_(raw) {}

  absl::StatusOr<TensorView> Decode() {
    absl::Status status = DecodeType();
    if (status.ok()) status = SetShape(message_.shape());
    if (status.ok()) status = raw_ != nullptr ? DecodeRaw() : DecodeContents();
    if (!status.ok()) return status;
    return std::move(view_);
  }

 private:
  absl::Status DecodeType() {
    const auto known = std::ranges::find(kTypes, message_.datatype(), &TypeName::text);
    if (known == kTypes.end()) {
      return Error("datatype", absl::StrCat("datatype is none of FP32, FP64, FP16, BF16, INT32, INT64, which are all "
                                            "that the models of this server have"));
    }
    list_ = known->list;
    SetType(known->type, known->text);
    return absl::OkStatus();
  }

  absl::Status DecodeRaw() {
    if (message_.has_contents() && !ListsIn(message_.contents()).empty()) {
      return Error("contents", "the elements come twice, in contents and raw_input_contents; send them in one of them");
    }
    if (SetRaw(*raw_)) return absl::OkStatus();
    return FieldError("raw_input_contents", RawMistake(absl::StrCat("the entry of ", message_.name()), *raw_));
  }

  absl::Status DecodeContents() {
    const TypedLists lists = ListsIn(message_.contents());
    if (lists.empty() && elements_ == 0) return absl::OkStatus();
    if (lists.size() != 1 || lists[0].field != list_) {
      const std::string expected = list_.empty() ? "raw_input_contents (it has no list in contents)"
                                                 : absl::StrCat("raw_input_contents or contents.", View(list_));
      return Error("contents", absl::StrCat(type_name(), " elements come in ", expected, ", but ",
                                            lists.empty()       ? "none came"
                                            : lists.size() == 1 ? absl::StrCat(View(lists[0].field), " came")
                                                                : "several lists came"));
    }
    RETURN_IF_ERROR(CheckCount(lists[0], "contents"));
    view_.data = lists[0].bytes;
    return absl::OkStatus();
  }

  const InputMessage& message_;
  const std::string* const raw_;
  std::string_view list_;  // that may hold the elements; "": none
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
  const std::string mistake = NameMistake(input.name(), "the input has no name");
  if (!mistake.empty()) return FieldError(absl::StrCat("inputs[", index, "].name"), mistake);
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
  RETURN_IF_ERROR(CheckCounts(request));
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
  RETURN_IF_ERROR(CheckCounts(request));
  std::vector<NamedTensor> decoded;
  decoded.reserve(static_cast<size_t>(request.inputs_size()));
  for (int k = 0; k < request.inputs_size(); ++k) {
    const InputMessage& input = request.inputs(k);
    if (IsControl(input)) continue;
    RETURN_IF_ERROR(CheckInput(input, k));
    const std::string* raw = request.raw_input_contents_size() > 0 ? &request.raw_input_contents(k) : nullptr;
    ASSIGN_OR_RETURN(TensorView view, InputDecoder(input, raw).Decode());
    decoded.push_back({input.name(), std::move(view)});
  }
  return decoded;
}

}  // namespace rnnserve::kserve
