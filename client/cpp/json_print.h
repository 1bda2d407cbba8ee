// SPDX-License-Identifier: Apache-2.0
// Messages as protobuf's JSON mapping. Inside the library only: it names protobuf.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "client/cpp/tensor.h"
#include "rnnserve/v1/tensor.pb.h"

namespace rnnserve::client {

// Field names as in the .proto files; in several lines, or in one.
std::string PrintJson(const google::protobuf::Message& message, bool in_lines = true);

// With a typed list instead of raw bytes.
void EncodeTyped(const Tensor& tensor, v1::Tensor& wire);

}  // namespace rnnserve::client
