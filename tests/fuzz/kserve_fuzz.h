// SPDX-License-Identifier: Apache-2.0
// The codec of the Open Inference Protocol on any bytes.
#pragma once

#include <string_view>

namespace rnnserve {

// Parses `bytes` as ModelInferRequest and as RepositoryModelLoadRequest and decodes both. Aborts if what is accepted
// breaks a promise of the codec, or a refusal names no field.
void FuzzKserve(std::string_view bytes);

}  // namespace rnnserve
