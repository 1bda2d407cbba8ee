// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/tensor_codec.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/float16.h"
#include "server/api/tensor_fields.h"

namespace rnnserve {
namespace {

constexpr int kMaxTensors = 64;

TypedLists ListsIn(const v1::Tensor& tensor) {
  TypedLists lists;
  AddUnlessEmpty("float_data", tensor.float_data(), lists);
  AddUnlessEmpty("double_data", tensor.double_data(), lists);
  AddUnlessEmpty("int32_data", tensor.int32_data(), lists);
  AddUnlessEmpty("int64_data", tensor.int64_data(), lists);
  return lists;
}

std::string_view ListFor(DataType type) {
  switch (type) {
    case DataType::kDouble:
      return "double_data";
    case DataType::kInt32:
      return "int32_data";
    case DataType::kInt64:
      return "int64_data";
    default:
      return "float_data";
  }
}

std::optional<DataType> KnownType(int value) {
  const DataType type = static_cast<DataType>(value);
  if (ByteSize(type) == 0) return std::nullopt;
  return type;
}

class TensorDecoder : private TensorFields {
 public:
  TensorDecoder(const v1::Tensor& message, std::string_view list)
      : TensorFields(list, message.name()), message_(message) {}

  absl::StatusOr<TensorView> Decode() {
    absl::Status status = DecodeType();
    if (status.ok()) status = SetShape(message_.shape());
    if (status.ok()) status = DecodeData();
    if (!status.ok()) return status;
    return std::move(view_);
  }

 private:
  absl::Status DecodeType() {
    const std::optional<DataType> type = KnownType(message_.data_type());
    if (!type) {
      return Error("data_type", absl::StrCat("data_type ", static_cast<int>(message_.data_type()),
                                             " is none of FLOAT (1), INT32 (6), INT64 (7), FLOAT16 (10), DOUBLE (11), "
                                             "BFLOAT16 (16)"));
    }
    SetType(*type, DataTypeName(*type));
    return absl::OkStatus();
  }

  absl::Status DecodeData() {
    const TypedLists lists = ListsIn(message_);
    const size_t carriers = lists.size() + (message_.raw().empty() ? 0 : 1);
    if (carriers > 1) {
      std::string names = message_.raw().empty() ? "" : "raw";
      for (const TypedList& list : lists) absl::StrAppend(&names, names.empty() ? "" : " and ", View(list.field));
      return FieldError(path(), absl::StrCat("the elements come twice, in ", names, "; send them in one of them"));
    }
    if (carriers == 0) return DecodeNothing();
    if (!lists.empty()) return DecodeList(lists[0]);
    return SetRaw(message_.raw()) ? absl::OkStatus() : Error("raw", RawMistake("raw", message_.raw()));
  }

  absl::Status DecodeNothing() const {
    if (elements_ == 0) return absl::OkStatus();
    return Error("raw", absl::StrCat("shape ", ShapeString(view_.shape), " has ", elements_,
                                     " elements, but none came; send them in raw (", bytes_, " bytes) or in ",
                                     View(ListFor(view_.type))));
  }

  absl::Status DecodeList(const TypedList& list) {
    if (list.field != ListFor(view_.type)) {
      return Error(list.field, absl::StrCat(type_name(), " elements come in ", View(ListFor(view_.type)),
                                            " or raw, not in ", View(list.field)));
    }
    RETURN_IF_ERROR(CheckCount(list, list.field));
    if (static_cast<int64_t>(list.bytes.size()) == bytes_) {
      view_.data = list.bytes;
      return absl::OkStatus();
    }
    // Not larger than the list it comes from.
    auto* rounded = reinterpret_cast<std::byte*>(
        google::protobuf::Arena::CreateArray<uint16_t>(message_.GetArena(), static_cast<size_t>(elements_)));
    ConvertElements(DataType::kFloat, list.bytes.data(), view_.type, rounded, static_cast<size_t>(elements_));
    view_.data = {rounded, static_cast<size_t>(bytes_)};
    return absl::OkStatus();
  }

  const v1::Tensor& message_;
};

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> DecodeTensors(const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors,
                                                       std::string_view list) {
  if (tensors.size() > kMaxTensors) {
    return FieldError(
        list, absl::StrCat(View(list), " has ", tensors.size(), " tensors; no operator takes more than ", kMaxTensors));
  }
  std::vector<NamedTensor> decoded;
  decoded.reserve(static_cast<size_t>(tensors.size()));
  for (int k = 0; k < tensors.size(); ++k) {
    const std::string& name = tensors[k].name();
    std::string mistake = NameMistake(name, "the tensor has no name; name it as the operator does, e.g. X");
    if (!mistake.empty()) return FieldError(absl::StrCat(View(list), "[", k, "].name"), mistake);
    ASSIGN_OR_RETURN(TensorView view, TensorDecoder(tensors[k], list).Decode());
    decoded.push_back({name, std::move(view)});
  }
  return decoded;
}

}  // namespace rnnserve
