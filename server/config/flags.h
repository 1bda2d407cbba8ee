// SPDX-License-Identifier: Apache-2.0
// The flags of rnnserve. config.proto has a field for each that a config file may set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/time/time.h"

namespace rnnserve {
inline constexpr char kDefaultAdminListen[] = "127.0.0.1:9464";
}  // namespace rnnserve

ABSL_DECLARE_FLAG(std::string, config);
ABSL_DECLARE_FLAG(std::vector<std::string>, listen);
ABSL_DECLARE_FLAG(std::string, port_file);
ABSL_DECLARE_FLAG(std::string, tls_cert);
ABSL_DECLARE_FLAG(std::string, tls_key);
ABSL_DECLARE_FLAG(std::string, tls_client_ca);
ABSL_DECLARE_FLAG(std::string, tls_min_version);
ABSL_DECLARE_FLAG(std::string, tls_ciphers);
ABSL_DECLARE_FLAG(std::string, tokens_file);
ABSL_DECLARE_FLAG(std::string, admin_listen);
ABSL_DECLARE_FLAG(int32_t, metrics_models);
ABSL_DECLARE_FLAG(bool, triton_metrics);
ABSL_DECLARE_FLAG(std::string, models);
ABSL_DECLARE_FLAG(absl::Duration, models_poll);
ABSL_DECLARE_FLAG(std::vector<std::string>, plugin);
ABSL_DECLARE_FLAG(int64_t, plugin_memory_bytes);
ABSL_DECLARE_FLAG(std::string, engine);
ABSL_DECLARE_FLAG(double, verify_share);
ABSL_DECLARE_FLAG(int32_t, workers);
ABSL_DECLARE_FLAG(bool, cpu_helper);
ABSL_DECLARE_FLAG(int32_t, max_message_bytes);
ABSL_DECLARE_FLAG(int64_t, memory_limit);
ABSL_DECLARE_FLAG(int64_t, max_bytes_in_flight);
ABSL_DECLARE_FLAG(int32_t, max_calls);
ABSL_DECLARE_FLAG(int32_t, max_connections);
ABSL_DECLARE_FLAG(absl::Duration, max_connection_idle);
ABSL_DECLARE_FLAG(absl::Duration, max_connection_age);
ABSL_DECLARE_FLAG(int64_t, queue_sequences);
ABSL_DECLARE_FLAG(absl::Duration, target_slice);
ABSL_DECLARE_FLAG(absl::Duration, max_batch_delay);
ABSL_DECLARE_FLAG(int64_t, packed_weight_bytes);
ABSL_DECLARE_FLAG(int64_t, model_weight_bytes);
ABSL_DECLARE_FLAG(absl::Duration, max_call_duration);
ABSL_DECLARE_FLAG(int64_t, session_bytes);
ABSL_DECLARE_FLAG(int64_t, max_sessions);
ABSL_DECLARE_FLAG(double, max_tenant_share);
ABSL_DECLARE_FLAG(double, session_operations_per_second);
ABSL_DECLARE_FLAG(absl::Duration, session_idle_timeout);
ABSL_DECLARE_FLAG(std::string, store);
ABSL_DECLARE_FLAG(std::string, session_secret_file);
ABSL_DECLARE_FLAG(absl::Duration, drain_delay);
ABSL_DECLARE_FLAG(absl::Duration, drain_timeout);
ABSL_DECLARE_FLAG(std::string, log_level);
ABSL_DECLARE_FLAG(std::string, log_format);
