// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/tensor.h"

#include <bit>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"

namespace rnnserve {
namespace {

static_assert(std::endian::native == std::endian::little, "typed lists are used as they lie in memory");

absl::Status WrongType(int32_t number, std::string_view needed) {
  return BadFile(absl::StrCat("has data_type ", OnnxTypeName(number), ", but ", View(needed), " is needed"));
}

// A number of external_data: absent, or digits.
absl::StatusOr<std::optional<int64_t>> Number(const std::map<std::string, std::string>& entries, const char* key) {
  const auto found = entries.find(key);
  if (found == entries.end()) return std::nullopt;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return BadFile(
        absl::StrCat("has the external_data ", key, " ", Quoted(text), ", but a number from 0 to 2^63 - 1 is needed"));
  }
  return value;
}

absl::StatusOr<std::string> ReadExternal(const onnx::TensorProto& tensor, const Folder* folder, int64_t bytes) {
  if (folder == nullptr) {
    return BadFile(
        "has its data in another file, which an upload cannot bring; write the model into one file "
        "(torch.onnx.export(..., external_data=False), onnx.save), or into the server's repository folder");
  }
  std::map<std::string, std::string> entries;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (!entries.emplace(entry.key(), entry.value()).second) {
      return BadFile(absl::StrCat("names ", Quoted(entry.key()), " twice in external_data"));
    }
  }
  const std::string& location = entries["location"];
  const auto offset = Number(entries, "offset");
  if (!offset.ok()) return offset.status();
  const auto length = Number(entries, "length");
  if (!length.ok()) return length.status();

  const absl::StatusOr<File> file = folder->OpenOwnFile(location);
  if (!file.ok()) {
    return BadFile(absl::StrCat("has its data in ", Quoted(location), ", which ", file.status().message()));
  }
  const int64_t start = offset->value_or(0);
  // Without a length the data go to the end of the file.
  const int64_t held = length->value_or(file->size() > start ? file->size() - start : 0);
  if (held != bytes) {
    return BadFile(absl::StrCat("needs ", bytes, " bytes by its shape, but its external data in ", Quoted(location),
                                " have ", held, " (file of ", file->size(), " bytes, offset ", start, ")"));
  }
  absl::StatusOr<std::string> data = file->Read(start, bytes);
  if (!data.ok()) return BadFile(absl::StrCat("has its data in ", Quoted(location), ": ", data.status().message()));
  return data;
}

// The name of the one typed list that holds elements; "" if none does, an error if several do.
absl::StatusOr<std::string> FilledList(const onnx::TensorProto& tensor) {
  const std::pair<const char*, bool> lists[] = {
      {"raw_data", !tensor.raw_data().empty()},       {"float_data", tensor.float_data_size() > 0},
      {"double_data", tensor.double_data_size() > 0}, {"int32_data", tensor.int32_data_size() > 0},
      {"int64_data", tensor.int64_data_size() > 0},   {"uint64_data", tensor.uint64_data_size() > 0},
      {"string_data", tensor.string_data_size() > 0}};
  std::string filled;
  for (const auto& [name, has_elements] : lists) {
    if (!has_elements) continue;
    if (!filled.empty()) return BadFile(absl::StrCat("has both ", filled, " and ", name, "; one of them is needed"));
    filled = name;
  }
  return filled;
}

const char* ListOf(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "float_data";
    case DataType::kDouble:
      return "double_data";
    case DataType::kInt64:
      return "int64_data";
    default:  // also 16-bit floats, as bits
      return "int32_data";
  }
}

template <typename List>
absl::StatusOr<OnnxTensor> FromList(const List& list, TensorView view, int64_t elements) {
  if (list.size() != elements) {
    return BadFile(absl::StrCat("has ", list.size(), " elements in ", ListOf(view.type), ", but its shape ",
                                ShapeString(view.shape), " has ", elements));
  }
  view.data = std::as_bytes(std::span(list.data(), static_cast<size_t>(elements)));
  return OnnxTensor{std::move(view), nullptr};
}

// float16 and bfloat16 lie as bits in int32_data.
absl::StatusOr<OnnxTensor> From16Bits(const onnx::TensorProto& tensor, TensorView view, int64_t elements) {
  absl::StatusOr<OnnxTensor> wide = FromList(tensor.int32_data(), std::move(view), elements);
  if (!wide.ok()) return wide;
  auto narrow = std::make_shared<std::vector<uint16_t>>();
  narrow->reserve(static_cast<size_t>(elements));
  for (const int32_t bits : tensor.int32_data()) {
    if (bits < 0 || bits > 0xffff) return BadFile(absl::StrCat("has ", bits, " in int32_data, which are no 16 bits"));
    narrow->push_back(static_cast<uint16_t>(bits));
  }
  wide->view.data = std::as_bytes(std::span(*narrow));
  wide->storage = std::move(narrow);
  return wide;
}

constexpr int64_t kUint4 = 21, kInt4 = 22;  // newer than what Debian's ONNX names

// Of an element that is narrower than INT32, else 0.
int64_t BitsOf(int64_t number) {
  if (number == onnx::TensorProto::INT8 || number == onnx::TensorProto::UINT8) return 8;
  return number == kInt4 || number == kUint4 ? 4 : 0;
}

// Without its elements, which take as many bytes of `type` as are allowed.
absl::StatusOr<TensorView> ViewOf(const onnx::TensorProto& tensor, DataType type, int64_t max_bytes) {
  if (tensor.dims_size() > 8) return BadFile(absl::StrCat("has ", tensor.dims_size(), " dimensions"));
  TensorView view{.type = type, .shape = Shape(tensor.dims().begin(), tensor.dims().end()), .data = {}};
  const std::optional<int64_t> bytes = NumBytes(type, view.shape);
  if (!bytes) return BadFile(absl::StrCat("has the impossible shape ", ShapeString(view.shape)));
  if (*bytes > max_bytes) {
    return BadFile(absl::StrCat("takes ", *bytes, " bytes by its shape ", ShapeString(view.shape), ", but at most ",
                                max_bytes, " are left for this model"));
  }
  if (tensor.has_segment()) return BadFile("is stored in segments, which are not supported; store it whole");
  return view;
}

}  // namespace

absl::StatusOr<OnnxTensor> ReadOnnxTensor(const onnx::TensorProto& tensor, const Folder* folder, int64_t max_bytes) {
  const auto type = static_cast<DataType>(tensor.data_type());
  if (ByteSize(type) == 0) return WrongType(tensor.data_type(), "FLOAT, DOUBLE, FLOAT16, BFLOAT16, INT32 or INT64");
  absl::StatusOr<TensorView> of_shape = ViewOf(tensor, type, max_bytes);
  if (!of_shape.ok()) return of_shape.status();
  TensorView& view = *of_shape;
  const std::optional<int64_t> elements = NumElements(view.shape), bytes = NumBytes(type, view.shape);
  if (tensor.data_location() == onnx::TensorProto_DataLocation_EXTERNAL) {
    absl::StatusOr<std::string> read = ReadExternal(tensor, folder, *bytes);
    if (!read.ok()) return read.status();
    auto storage = std::make_shared<const std::string>(*std::move(read));
    view.data = std::as_bytes(std::span(*storage));
    return OnnxTensor{std::move(view), std::move(storage)};
  }
  const absl::StatusOr<std::string> list = FilledList(tensor);
  if (!list.ok()) return list.status();
  if (*list == "raw_data" || (*list == "" && *elements == 0)) {
    view.data = std::as_bytes(std::span(tensor.raw_data()));
    if (static_cast<int64_t>(view.data.size()) == *bytes) return OnnxTensor{std::move(view), nullptr};
    return BadFile(absl::StrCat("has ", view.data.size(), " bytes in raw_data, but its shape ", ShapeString(view.shape),
                                " and type ", OnnxTypeName(type), " need ", *bytes));
  }
  if (*list != ListOf(type)) {
    return BadFile(absl::StrCat("has its elements in ", *list == "" ? "no list" : *list, ", but type ",
                                OnnxTypeName(type), " needs ", ListOf(type), " or raw_data"));
  }
  switch (type) {
    case DataType::kFloat:
      return FromList(tensor.float_data(), std::move(view), *elements);
    case DataType::kDouble:
      return FromList(tensor.double_data(), std::move(view), *elements);
    case DataType::kInt64:
      return FromList(tensor.int64_data(), std::move(view), *elements);
    case DataType::kInt32:
      return FromList(tensor.int32_data(), std::move(view), *elements);
    default:
      return From16Bits(tensor, std::move(view), *elements);
  }
}

bool IsNarrowInteger(int64_t number) { return BitsOf(number) != 0; }

absl::StatusOr<OnnxTensor> ReadNarrowIntegers(const onnx::TensorProto& tensor, const Folder* folder,
                                              int64_t max_bytes) {
  absl::StatusOr<TensorView> view = ViewOf(tensor, DataType::kInt32, max_bytes);
  if (!view.ok()) return view.status();
  const int64_t bits = BitsOf(tensor.data_type()), in_a_byte = 8 / bits,
                elements = NumElements(view->shape).value_or(0);
  const int64_t needed = (elements + in_a_byte - 1) / in_a_byte;
  absl::StatusOr<std::string> bytes = tensor.raw_data();
  const absl::StatusOr<std::string> list = FilledList(tensor);
  if (!list.ok()) return list.status();
  if (*list == "int32_data") bytes->assign(tensor.int32_data().begin(), tensor.int32_data().end());
  if (tensor.data_location() == onnx::TensorProto_DataLocation_EXTERNAL) bytes = ReadExternal(tensor, folder, needed);
  if (!bytes.ok()) return bytes.status();
  if (static_cast<int64_t>(bytes->size()) != needed) {
    return BadFile(absl::StrCat("has ", bytes->size(), " bytes, but its shape ", ShapeString(view->shape), " and type ",
                                OnnxTypeName(tensor.data_type()), " need ", needed));
  }
  auto wide = std::make_shared<std::vector<int32_t>>();
  wide->reserve(static_cast<size_t>(elements));
  const bool is_signed = tensor.data_type() == onnx::TensorProto::INT8 || tensor.data_type() == kInt4;
  for (int64_t k = 0; k < elements; ++k) {  // of two in a byte the lower bits first
    const auto byte = static_cast<unsigned char>((*bytes)[static_cast<size_t>(k / in_a_byte)]);
    const int32_t number = byte >> (k % in_a_byte * bits) & ((1 << bits) - 1);
    wide->push_back(is_signed && number >> (bits - 1) != 0 ? number - (1 << bits) : number);
  }
  view->data = std::as_bytes(std::span(*wide));
  return OnnxTensor{*std::move(view), std::move(wide)};
}

bool AllZero(std::span<const std::byte> data) {
  return std::ranges::all_of(data, [](std::byte byte) { return byte == std::byte{0}; });
}

std::string OnnxTypeName(int64_t number) {
  const auto type = static_cast<int>(number);
  if (number != type || !onnx::TensorProto_DataType_IsValid(type)) return absl::StrCat("type ", number);
  return onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(type));
}

absl::Status CheckFloating(DataType type) {
  if (IsFloating(type)) return absl::OkStatus();
  return WrongType(static_cast<int32_t>(type), "FLOAT, DOUBLE, FLOAT16 or BFLOAT16");
}

}  // namespace rnnserve
