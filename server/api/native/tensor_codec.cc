// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/tensor_codec.h"

#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/float16.h"

namespace rnnserve {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensor data is little-endian, and is used as it comes");

constexpr int kMaxTensors = 64;
constexpr int kMaxRank = 8;
constexpr size_t kMaxNameBytes = 128;

// A typed list of a message, whatever its type.
struct TypedList {
  const char* field;
  int64_t count;
  const void* data;
  size_t element_bytes;
};
using TypedListsOf = absl::InlinedVector<TypedList, 4>;

TypedListsOf TypedLists(const v1::Tensor& tensor) {
  TypedListsOf lists;
  const auto add = [&](const char* field, const auto& list) {
    if (!list.empty()) lists.push_back({field, list.size(), list.data(), sizeof(*list.data())});
  };
  add("float_data", tensor.float_data());
  add("double_data", tensor.double_data());
  add("int32_data", tensor.int32_data());
  add("int64_data", tensor.int64_data());
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

// Decodes one tensor; `path` is its own, e.g. inputs[X].
class TensorDecoder {
 public:
  TensorDecoder(const v1::Tensor& message, std::string path) : message_(message), path_(std::move(path)) {}

  absl::StatusOr<TensorView> Decode() {
    absl::Status status = DecodeType();
    if (status.ok()) status = DecodeShape();
    if (status.ok()) status = DecodeData();
    if (!status.ok()) return status;
    return std::move(view_);
  }

 private:
  absl::Status Error(std::string_view field, std::string_view text) const {
    return FieldError(absl::StrCat(path_, ".", View(field)), text);
  }

  absl::Status DecodeType() {
    const std::optional<DataType> type = KnownType(message_.data_type());
    if (!type) {
      return Error("data_type", absl::StrCat("data_type ", static_cast<int>(message_.data_type()),
                                             " is none of FLOAT (1), INT32 (6), INT64 (7), FLOAT16 (10), DOUBLE (11), "
                                             "BFLOAT16 (16)"));
    }
    view_.type = *type;
    return absl::OkStatus();
  }

  absl::Status DecodeShape() {
    if (message_.shape_size() > kMaxRank) {
      return Error("shape", absl::StrCat("the shape has ", message_.shape_size(), " dimensions; tensors have at most ",
                                         kMaxRank));
    }
    view_.shape.assign(message_.shape().begin(), message_.shape().end());
    for (const int64_t dimension : view_.shape) {
      if (dimension < 0) {
        return Error("shape", absl::StrCat("shape ", ShapeString(view_.shape), " has a negative dimension"));
      }
    }
    const std::optional<int64_t> elements = NumElements(view_.shape);
    const std::optional<int64_t> bytes = NumBytes(view_.type, view_.shape);
    if (!elements || !bytes) {
      return Error("shape", absl::StrCat("shape ", ShapeString(view_.shape), " of ", TypeName(),
                                         " is more than 2^63 - 1 bytes"));
    }
    elements_ = *elements;
    bytes_ = *bytes;
    return absl::OkStatus();
  }

  absl::Status DecodeData() {
    const TypedListsOf lists = TypedLists(message_);
    const size_t carriers = lists.size() + (message_.raw().empty() ? 0 : 1);
    if (carriers > 1) {
      std::string names = message_.raw().empty() ? "" : "raw";
      for (const TypedList& list : lists) absl::StrAppend(&names, names.empty() ? "" : " and ", list.field);
      return FieldError(path_, absl::StrCat("the elements come twice, in ", names, "; send them in one of them"));
    }
    if (carriers == 0) return DecodeNothing();
    return lists.empty() ? DecodeRaw() : DecodeList(lists[0]);
  }

  absl::Status DecodeNothing() const {
    if (elements_ == 0) return absl::OkStatus();
    return Error("raw", absl::StrCat("shape ", ShapeString(view_.shape), " has ", elements_,
                                     " elements, but none came; send them in raw (", bytes_, " bytes) or in ",
                                     View(ListFor(view_.type))));
  }

  absl::Status DecodeRaw() {
    const std::string& raw = message_.raw();
    if (static_cast<int64_t>(raw.size()) != bytes_) {
      return Error("raw", absl::StrCat("raw has ", raw.size(), " bytes, but shape ", ShapeString(view_.shape), " of ",
                                       TypeName(), " takes ", bytes_));
    }
    view_.data = std::as_bytes(std::span(raw));
    return absl::OkStatus();
  }

  absl::Status DecodeList(const TypedList& list) {
    if (list.field != ListFor(view_.type)) {
      return Error(list.field, absl::StrCat(TypeName(), " elements come in ", View(ListFor(view_.type)),
                                            " or raw, not in ", list.field));
    }
    if (list.count != elements_) {
      return Error(list.field, absl::StrCat(list.field, " has ", list.count, " values, but shape ",
                                            ShapeString(view_.shape), " takes ", elements_));
    }
    const auto* data = static_cast<const std::byte*>(list.data);
    if (list.element_bytes == ByteSize(view_.type)) {
      view_.data = {data, static_cast<size_t>(bytes_)};
      return absl::OkStatus();
    }
    // Not larger than the list it comes from.
    auto* rounded = reinterpret_cast<std::byte*>(
        google::protobuf::Arena::CreateArray<uint16_t>(message_.GetArena(), static_cast<size_t>(elements_)));
    ConvertElements(DataType::kFloat, data, view_.type, rounded, static_cast<size_t>(elements_));
    view_.data = {rounded, static_cast<size_t>(bytes_)};
    return absl::OkStatus();
  }

  absl::string_view TypeName() const { return View(DataTypeName(view_.type)); }

  const v1::Tensor& message_;
  const std::string path_;
  TensorView view_;
  int64_t elements_ = 0;
  int64_t bytes_ = 0;
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
    if (name.empty() || name.size() > kMaxNameBytes) {
      return FieldError(
          absl::StrCat(View(list), "[", k, "].name"),
          name.empty() ? "the tensor has no name; name it as the operator does, e.g. X"
                       : absl::StrCat("the name has ", name.size(), " bytes; at most ", kMaxNameBytes, " are taken"));
    }
    absl::StatusOr<TensorView> view = TensorDecoder(tensors[k], absl::StrCat(View(list), "[", name, "]")).Decode();
    if (!view.ok()) return view.status();
    decoded.push_back({name, *std::move(view)});
  }
  return decoded;
}

void EncodeTensor(const OutputTensor& tensor, v1::Tensor& message) {
  message.set_name(tensor.name);
  message.set_data_type(static_cast<v1::DataType>(tensor.type));
  message.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  message.set_raw(tensor.bytes.data(), tensor.bytes.size());
}

}  // namespace rnnserve
