// SPDX-License-Identifier: Apache-2.0
// Messages as protobuf's JSON mapping. Names protobuf, unlike json.h.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "client/cpp/tensor.h"
#include "rnnserve/v1/tensor.pb.h"

namespace rnnserve::rnnctl {

// Field names as in the .proto files; in several lines, or in one.
std::string PrintJson(const google::protobuf::Message& message, bool in_lines = true);

// With a typed list instead of raw bytes.
void EncodeTyped(const client::Tensor& tensor, v1::Tensor& wire);

}  // namespace rnnserve::rnnctl
