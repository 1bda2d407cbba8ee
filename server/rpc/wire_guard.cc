// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/wire_guard.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/str_cat.h"
#include "server/admission/limit_error.h"

namespace rnnserve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class PartCounter {
 public:
  explicit PartCounter(CodedInputStream& in) : in_(in) {}

  // False: there is nothing more to count, since the bytes end, are broken, or hold too much.
  bool Count(const Descriptor* type, int depth) {
    while (const uint32_t tag = in_.ReadTag()) {
      if (!CountField(type, tag, depth) || too_many_parts() || too_many_integers()) return false;
    }
    return true;
  }
  bool too_many_parts() const { return parts_ > kMaxMessageParts; }
  bool too_many_integers() const { return integers_ > kMaxMessageIntegers; }

 private:
  static constexpr int kMaxDepth = 64;  // the parser's own is 100

  bool CountField(const Descriptor* type, uint32_t tag, int depth) {
    const FieldDescriptor* field =
        type == nullptr ? nullptr : type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
    const bool is_list = field != nullptr && field->is_packable();  // of numbers
    if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      // A known field of another wire type becomes an unknown one.
      if (!is_list || wire_type != WireTypeOf(*field)) {
        ++parts_;
      } else if (wire_type == WireFormatLite::WIRETYPE_VARINT) {
        ++integers_;
      }
      return WireFormatLite::SkipField(&in_, tag);
    }
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) return false;
    if (is_list) {
      if (WireTypeOf(*field) == WireFormatLite::WIRETYPE_VARINT) integers_ += length;  // a byte each, at least
      return in_.Skip(static_cast<int>(length));
    }
    ++parts_;
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || depth == kMaxDepth) {
      return in_.Skip(static_cast<int>(length));
    }
    const CodedInputStream::Limit outer = in_.PushLimit(static_cast<int>(length));
    const bool whole = Count(field->message_type(), depth + 1);
    in_.PopLimit(outer);
    return whole;
  }

  static WireFormatLite::WireType WireTypeOf(const FieldDescriptor& field) {
    return WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
  }

  CodedInputStream& in_;
  int parts_ = 0;
  int64_t integers_ = 0;
};

}  // namespace

absl::Status CheckParts(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& type) {
  CodedInputStream in(&bytes);
  PartCounter counter(in);
  counter.Count(&type, 0);
  if (counter.too_many_parts()) {
    return LimitError("",
                      absl::StrCat("the request has more than ", kMaxMessageParts,
                                   " sub-messages, strings, single values and unknown fields; send fewer operations or "
                                   "tensors in one message"),
                      {.limit = kMaxMessageParts, .value = kMaxMessageParts + 1});
  }
  if (counter.too_many_integers()) {
    return LimitError("",
                      absl::StrCat("the request has more than ", kMaxMessageIntegers,
                                   " bytes of integers in typed lists; send integers in raw"),
                      {.limit = kMaxMessageIntegers, .value = kMaxMessageIntegers + 1});
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
