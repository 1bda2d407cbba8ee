// SPDX-License-Identifier: Apache-2.0
// Results in protobuf's JSON mapping of rnnserve.v1 (field names as in the .proto files), for scripts. Outputs carry
// typed lists instead of raw bytes, so that they can be read without decoding.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/cpp/types.h"

namespace rnnserve::client {

// Whether the text is the JSON form of an InferRequest; the error says where it is not.
absl::Status CheckInferJson(std::string_view json);

std::string ToJson(const InferResult& result);  // InferResponse
std::string ToJson(const ModelInfo& model);     // ModelInfo
std::string ToJson(const ModelList& list);      // ListModelsResponse

}  // namespace rnnserve::client
