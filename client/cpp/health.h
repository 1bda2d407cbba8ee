// SPDX-License-Identifier: Apache-2.0
// The Check call of grpc.health.v1. Its two messages have one field each and are written by hand here, so that a
// program that also links another generated health.proto does not register the file twice.
#pragma once

#include <memory>
#include <string_view>

#include "client/cpp/types.h"

namespace grpc {
class ChannelInterface;
class ClientContext;
class Status;
}  // namespace grpc

namespace rnnserve::client {

// `status` is the call's own; the value is meant only if it is OK.
HealthStatus CheckHealth(const std::shared_ptr<grpc::ChannelInterface>& channel, grpc::ClientContext& context,
                         std::string_view service, grpc::Status& status);

}  // namespace rnnserve::client
