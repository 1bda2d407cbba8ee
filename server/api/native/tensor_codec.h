// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Tensor -> tensors of the core.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rnnserve/v1/tensor.pb.h"
#include "server/core/call.h"

namespace rnnserve {

// Views of `tensors`, which must stay as they are: data is not copied, except 16-bit floats from a typed list, which
// are rounded into memory of the messages' arena (`tensors` must be on one). Refuses, under `list` ("inputs"):
// unknown types, absurd names and ranks, overflowing shapes, both or neither of raw and a typed list, a list of another
// type, and counts that disagree with the shape. Unknown and repeated names are left to the operator.
absl::StatusOr<std::vector<NamedTensor>> DecodeTensors(const google::protobuf::RepeatedPtrField<v1::Tensor>& tensors,
                                                       std::string_view list);

}  // namespace rnnserve
