// SPDX-License-Identifier: Apache-2.0
// What is served, in the words of gRPC's reflection protocol: a pure function of a request, the names of the services
// and the descriptors that are linked in.
#pragma once

#include <google/protobuf/descriptor.h>

#include <span>
#include <string_view>

#include "grpc/reflection/v1/reflection.pb.h"

namespace rnnserve {

// Errors are part of the response.
grpc::reflection::v1::ServerReflectionResponse AnswerReflection(
    const grpc::reflection::v1::ServerReflectionRequest& request, std::span<const std::string_view> services,
    const google::protobuf::DescriptorPool& pool);

}  // namespace rnnserve
