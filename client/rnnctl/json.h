// SPDX-License-Identifier: Apache-2.0
// Results in protobuf's JSON mapping of rnnserve.v1 (field names as in the .proto files), for scripts. Outputs carry
// typed lists instead of raw bytes, so that they can be read without decoding.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/types.h"

namespace rnnserve::rnnctl {

// The serialized InferRequest whose JSON form the text is; the error says where it is none.
absl::StatusOr<std::string> ParseInferJson(std::string_view json);

std::string ToJson(const client::InferResult& result);  // InferResponse
std::string ToJson(const client::ModelInfo& model);     // client::ModelInfo
std::string ToJson(const client::ModelList& list);      // ListModelsResponse

}  // namespace rnnserve::rnnctl
