// SPDX-License-Identifier: Apache-2.0
#include "engine/data_type.h"

namespace rnnserve {

std::string_view DataTypeName(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "float32";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kDouble:
      return "float64";
    case DataType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

}  // namespace rnnserve
