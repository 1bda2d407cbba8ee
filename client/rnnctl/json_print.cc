// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/json_print.h"

#include <google/protobuf/util/json_util.h>

namespace rnnserve::rnnctl {

std::string PrintJson(const google::protobuf::Message& message, bool in_lines) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = in_lines;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : "{}\n";  // fails only for types unknown to the program, and these are compiled in
}

void EncodeTyped(const client::Tensor& tensor, v1::Tensor& wire) {
  wire.set_name(tensor.name);
  wire.set_data_type(static_cast<v1::DataType>(tensor.type));
  wire.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  if (tensor.type == DataType::kInt64) {  // not by way of double, which would lose digits
    wire.mutable_int64_data()->Resize(static_cast<int>(tensor.bytes.size() / sizeof(int64_t)), 0);
    tensor.bytes.copy(reinterpret_cast<char*>(wire.mutable_int64_data()->mutable_data()), tensor.bytes.size());
    return;
  }
  for (double value : client::ValuesOf(tensor)) {
    switch (tensor.type) {
      case DataType::kDouble:
        wire.add_double_data(value);
        break;
      case DataType::kInt32:
        wire.add_int32_data(static_cast<int32_t>(value));
        break;
      default:
        wire.add_float_data(static_cast<float>(value));
    }
  }
}

}  // namespace rnnserve::rnnctl
