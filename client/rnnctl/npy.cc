// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/npy.h"

#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/wording.h"

namespace rnnserve::rnnctl {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the data in the file, as numpy writes it

absl::Status Refuse(const std::string& why) { return absl::InvalidArgumentError(why); }

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// The header is a Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Takes just that
// much of Python.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    if (!Take('{')) return Bad("a dictionary");
    while (!Take('}')) {
      RETURN_IF_ERROR(ParseEntry(header));
      if (!Take(',') && !Peek('}')) return Bad("',' or '}'");
    }
    SkipSpace();
    if (!text_.empty()) return Bad("nothing after the dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) return Bad("the keys descr, fortran_order and shape");
    return header;
  }

 private:
  absl::Status ParseEntry(Header& header) {
    const std::optional<std::string> key = String();
    if (!key || !Take(':')) return Bad("'key':");
    if (*key == "descr" && !header.descr) {
      if (Peek('[')) return Refuse("holds structured elements; save each field as an array of its own");
      header.descr = String();
      return header.descr ? absl::OkStatus() : Bad("a string for descr");
    }
    if (*key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = Bool();
      return header.fortran_order ? absl::OkStatus() : Bad("True or False for fortran_order");
    }
    if (*key == "shape" && !header.shape) {
      header.shape = Tuple();
      return header.shape ? absl::OkStatus() : Bad("a tuple of sizes for shape");
    }
    return Bad("each of the keys descr, fortran_order and shape once");
  }

  std::optional<std::string> String() {
    SkipSpace();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  std::optional<bool> Bool() {
    SkipSpace();
    for (const auto& [word, value] :
         {std::pair(std::string_view("True"), true), std::pair(std::string_view("False"), false)}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    return std::nullopt;
  }

  std::optional<Shape> Tuple() {
    Shape shape;
    if (!Take('(')) return std::nullopt;
    while (!Take(')')) {
      SkipSpace();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) return std::nullopt;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      shape.push_back(size);
      if (!Take(',') && !Peek(')')) return std::nullopt;
    }
    return shape;
  }

  bool Peek(char c) {
    SkipSpace();
    return !text_.empty() && text_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void SkipSpace() {
    const size_t start = text_.find_first_not_of(" \t\n");
    text_.remove_prefix(start == std::string_view::npos ? text_.size() : start);
  }
  static absl::Status Bad(std::string_view expected) {
    return Refuse(absl::StrCat("has a header that cannot be read: expected ", View(expected),
                               "; write it again with numpy.save"));
  }

  std::string_view text_;
};

struct TypeName {
  std::string_view descr;
  DataType type;
};
constexpr TypeName kTypes[] = {{"<f2", DataType::kFloat16},
                               {"<f4", DataType::kFloat},
                               {"<f8", DataType::kDouble},
                               {"<i4", DataType::kInt32},
                               {"<i8", DataType::kInt64}};

absl::StatusOr<DataType> TypeOf(const std::string& descr) {
  for (const TypeName& known : kTypes) {
    if (known.descr == descr) return known.type;
  }
  if (descr.size() > 1 && descr[0] == '>') {
    return Refuse(
        absl::StrCat("holds big-endian elements ('", descr, "'); save it again as a.astype('<", descr.substr(1), "')"));
  }
  return Refuse(absl::StrCat("holds elements of type '", descr,
                             "'; expected float16, float32, float64, int32 or int64 (use a.astype(numpy.float32))"));
}

// The header's text, and where the data begins.
struct Parts {
  std::string_view header;
  std::string_view data;
};

absl::StatusOr<Parts> Split(std::string_view file) {
  if (!file.starts_with(kMagic)) return Refuse("is no .npy file; write it with numpy.save (not savez or savetxt)");
  const std::string_view rest = file.substr(kMagic.size());
  if (rest.size() < 2) return Refuse("ends within the first bytes");
  const int major = static_cast<unsigned char>(rest[0]);
  if (major != 1 && major != 2) {
    return Refuse(absl::StrCat("has version ", major, ".", static_cast<int>(static_cast<unsigned char>(rest[1])),
                               " of the format; expected 1.0 or 2.0, which numpy.save writes for plain arrays"));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (rest.size() < 2 + length_bytes) return Refuse("ends within the first bytes");
  size_t length = 0;
  for (size_t k = 0; k < length_bytes; ++k) length |= size_t{static_cast<unsigned char>(rest[2 + k])} << (8 * k);
  const std::string_view body = rest.substr(2 + length_bytes);
  if (length > body.size()) {
    return Refuse(absl::StrCat("says that its header has ", length, " bytes, but only ", body.size(), " follow"));
  }
  return Parts{body.substr(0, length), body.substr(length)};
}

}  // namespace

absl::StatusOr<client::Tensor> ParseNpy(std::string_view file) {
  ASSIGN_OR_RETURN(const Parts parts, Split(file));
  ASSIGN_OR_RETURN(Header header, HeaderParser(parts.header).Parse());
  ASSIGN_OR_RETURN(const DataType type, TypeOf(*header.descr));
  if (*header.fortran_order) {
    return Refuse("is stored in Fortran order; save it again as numpy.ascontiguousarray(a)");
  }
  const std::optional<int64_t> bytes = NumBytes(type, *header.shape);
  if (!bytes || *bytes != static_cast<int64_t>(parts.data.size())) {
    return Refuse(absl::StrCat("has shape ", ShapeString(*header.shape), " of ", View(DataTypeName(type)),
                               ", which takes ", bytes ? absl::StrCat(*bytes) : "more than 2^63", " bytes, but ",
                               parts.data.size(), " follow the header"));
  }
  return client::Tensor{"", type, *std::move(header.shape), std::string(parts.data)};
}

std::string FormatNpy(const client::Tensor& tensor) {
  if (tensor.type == DataType::kBFloat16) return FormatNpy(ConvertTensor(tensor, DataType::kFloat).value());
  std::string_view descr;
  for (const TypeName& known : kTypes) {
    if (known.type == tensor.type) descr = known.descr;
  }
  std::string header = absl::StrCat("{'descr': '", View(descr), "', 'fortran_order': False, 'shape': (",
                                    absl::StrJoin(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "", "), }");
  const size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header.push_back('\n');
  std::string file(kMagic);
  file.push_back(1);
  file.push_back(0);
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  return absl::StrCat(file, header, tensor.bytes);
}

}  // namespace rnnserve::rnnctl
