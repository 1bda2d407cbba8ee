// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/wire_guard.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/str_cat.h"
#include "server/core/limit_error.h"

namespace rnnserve {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class PartCounter {
 public:
  explicit PartCounter(CodedInputStream& in) : in_(in) {}

  // False: there is nothing more to count, since the bytes end, are broken, or hold too many parts.
  bool Count(const Descriptor* type, int depth) {
    while (const uint32_t tag = in_.ReadTag()) {
      if (!CountField(type, tag, depth) || parts_ > kMaxMessageParts) return false;
    }
    return true;
  }
  bool too_many() const { return parts_ > kMaxMessageParts; }

 private:
  static constexpr int kMaxDepth = 64;  // the parser's own is 100

  bool CountField(const Descriptor* type, uint32_t tag, int depth) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByNumber(number);
    if (field == nullptr) ++parts_;
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&in_, tag);
    }
    uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) return false;
    if (field != nullptr && field->is_packable()) return in_.Skip(static_cast<int>(length));
    ++parts_;
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || depth == kMaxDepth) {
      return in_.Skip(static_cast<int>(length));
    }
    const CodedInputStream::Limit outer = in_.PushLimit(static_cast<int>(length));
    const bool whole = Count(field->message_type(), depth + 1);
    in_.PopLimit(outer);
    return whole;
  }

  CodedInputStream& in_;
  int parts_ = 0;
};

}  // namespace

absl::Status CheckParts(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& type) {
  CodedInputStream in(&bytes);
  PartCounter counter(in);
  counter.Count(&type, 0);
  if (!counter.too_many()) return absl::OkStatus();
  return LimitError("",
                    absl::StrCat("the request has more than ", kMaxMessageParts,
                                 " sub-messages, strings and unknown fields; no operator takes that many"),
                    {.limit = kMaxMessageParts, .value = kMaxMessageParts + 1});
}

}  // namespace rnnserve
