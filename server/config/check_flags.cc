// SPDX-License-Identifier: Apache-2.0
#include "server/config/check_flags.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/config/descriptor_limit.h"
#include "server/config/flags.h"
#include "server/config/memory_limit.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr int32_t kMostWorkers = 4096;

// host:port with a port that exists, or unix:path. gRPC takes 99999 for 34463.
bool IsAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) return true;
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && absl::SimpleAtoi(address.substr(colon + 1), &port) && port <= 65535;
}

class Checks {
 public:
  explicit Checks(const Settings& settings) : settings_(settings) {}
  std::vector<std::string> mistakes() && { return std::move(mistakes_); }

  // `entry`: of a list.
  void Wrong(const char* flag, absl::string_view expected, size_t entry = 0) {
    mistakes_.push_back(absl::StrCat(settings_.Named(flag, entry), ": expected ", expected));
  }
  template <typename Number>
  void AtLeast(const char* flag, const Number& value, Number least) {
    if (!(value >= least)) Wrong(flag, absl::StrCat("at least ", least));
  }
  void AtLeast(const char* flag, absl::Duration value, absl::Duration least) {
    if (value < least) Wrong(flag, absl::StrCat("at least ", absl::FormatDuration(least)));
  }
  // For what would otherwise end in an exception at the start.
  template <typename Number>
  void Within(const char* flag, const Number& value, Number least, Number most) {
    if (value < least || value > most) Wrong(flag, absl::StrCat(least, " to ", most));
  }
  void Positive(const char* flag, absl::Duration value) {
    if (value <= absl::ZeroDuration()) Wrong(flag, "a positive duration, e.g. 30s");
  }
  void Share(const char* flag, double value, absl::string_view example) {
    if (!(value >= 0 && value <= 1)) Wrong(flag, absl::StrCat("0 to 1, e.g. ", example));
  }
  void OneOf(const char* flag, const std::string& value, std::initializer_list<absl::string_view> words) {
    for (const absl::string_view word : words) {
      if (word == value) return;
    }
    Wrong(flag, absl::StrJoin(words, ", "));
  }

 private:
  const Settings& settings_;
  std::vector<std::string> mistakes_;
};

void CheckMemory(Checks& checks) {
  const int64_t asked = absl::GetFlag(FLAGS_memory_limit);
  const int64_t limit = MemoryLimit();
  if (asked < 0 || (asked > 0 && asked < kLeastMemoryLimit)) {
    checks.Wrong("memory_limit",
                 absl::StrCat("at least ", kLeastMemoryLimit, " (with less nothing could be served), or 0"));
  } else if (limit > 0 && limit < kLeastMemoryLimit) {
    checks.Wrong("memory_limit", absl::StrCat("a container or machine of at least ", kLeastMemoryLimit,
                                              " bytes; this one has ", limit, ", with which nothing could be served"));
  }
}

void CheckSizes(Checks& checks) {
  checks.Within("workers", absl::GetFlag(FLAGS_workers), 0, kMostWorkers);
  checks.AtLeast("max_message_bytes", absl::GetFlag(FLAGS_max_message_bytes), 1);
  checks.AtLeast<int64_t>("max_bytes_in_flight", absl::GetFlag(FLAGS_max_bytes_in_flight), 1);
  checks.AtLeast("max_calls", absl::GetFlag(FLAGS_max_calls), 1);
  checks.AtLeast<int64_t>("queue_sequences", absl::GetFlag(FLAGS_queue_sequences), 1);
  checks.AtLeast<int64_t>("packed_weight_bytes", absl::GetFlag(FLAGS_packed_weight_bytes), 0);
  checks.AtLeast<int64_t>("model_weight_bytes", absl::GetFlag(FLAGS_model_weight_bytes), 0);
  checks.AtLeast<int64_t>("plugin_memory_bytes", absl::GetFlag(FLAGS_plugin_memory_bytes), 0);
}

void CheckSessions(Checks& checks) {
  checks.AtLeast<int64_t>("session_bytes", absl::GetFlag(FLAGS_session_bytes), 0);
  checks.AtLeast<int64_t>("max_sessions", absl::GetFlag(FLAGS_max_sessions), 0);
  checks.AtLeast("session_operations_per_second", absl::GetFlag(FLAGS_session_operations_per_second), 0.0);
  checks.AtLeast("session_idle_timeout", absl::GetFlag(FLAGS_session_idle_timeout), absl::Seconds(1));
}

void CheckTimes(Checks& checks) {
  checks.AtLeast("models_poll", absl::GetFlag(FLAGS_models_poll), absl::Milliseconds(10));
  checks.AtLeast("max_connection_idle", absl::GetFlag(FLAGS_max_connection_idle), absl::Seconds(1));
  checks.AtLeast("max_connection_age", absl::GetFlag(FLAGS_max_connection_age), absl::Seconds(1));
  checks.AtLeast("target_slice", absl::GetFlag(FLAGS_target_slice), absl::Microseconds(1));
  checks.AtLeast("max_batch_delay", absl::GetFlag(FLAGS_max_batch_delay), absl::ZeroDuration());
  checks.Positive("max_call_duration", absl::GetFlag(FLAGS_max_call_duration));
  checks.AtLeast("drain_delay", absl::GetFlag(FLAGS_drain_delay), absl::ZeroDuration());
  checks.AtLeast("drain_timeout", absl::GetFlag(FLAGS_drain_timeout), absl::ZeroDuration());
}

void CheckAddresses(Checks& checks) {
  if (absl::GetFlag(FLAGS_listen).empty()) checks.Wrong("listen", "an address, e.g. 0.0.0.0:50051");
  const std::vector<std::string> listen = absl::GetFlag(FLAGS_listen);
  for (size_t k = 0; k < listen.size(); ++k) {
    if (IsAddress(listen[k])) continue;
    checks.Wrong("listen", absl::StrCat("host:port with a port from 0 to 65535, or unix:path, not ", listen[k]), k);
  }
  const std::string admin = absl::GetFlag(FLAGS_admin_listen);
  if (absl::StartsWith(admin, "[")) {
    checks.Wrong("admin_listen", "an IPv4 address: the HTTP library has no IPv6");
  } else if (!admin.empty() && (!IsAddress(admin) || absl::StartsWith(admin, "unix"))) {
    checks.Wrong("admin_listen", "host:port with a port from 0 to 65535, or nothing");
  }
  checks.AtLeast("metrics_models", absl::GetFlag(FLAGS_metrics_models), 0);
  checks.AtLeast("max_connections", absl::GetFlag(FLAGS_max_connections), 0);
  if (absl::GetFlag(FLAGS_max_connections) > MostConnections()) {
    checks.Wrong("max_connections", absl::StrCat("at most ", MostConnections(), ", ", kOtherDescriptors,
                                                 " below the limit of file descriptors (ulimit -n)"));
  }
}

}  // namespace

bool IsLocalAddress(std::string_view address) {
  const absl::string_view text(address.data(), address.size());
  for (const char* local : {"unix:", "unix-abstract:", "127.", "localhost:", "[::1]:", "::1:"}) {
    if (absl::StartsWith(text, local)) return true;
  }
  return false;
}

std::vector<std::string> MistakesOf(const Settings& settings) {
  Checks checks(settings);
  CheckMemory(checks);
  CheckSizes(checks);
  CheckSessions(checks);
  CheckTimes(checks);
  CheckAddresses(checks);
  checks.OneOf("log_level", absl::GetFlag(FLAGS_log_level), {"debug", "info", "warning", "error", "off"});
  checks.OneOf("log_format", absl::GetFlag(FLAGS_log_format), {"text", "json"});
  checks.Share("verify_share", absl::GetFlag(FLAGS_verify_share), "0.01 for every hundredth call");
  checks.Share("max_tenant_share", absl::GetFlag(FLAGS_max_tenant_share), "0.25 for a quarter of the bytes");
  checks.OneOf("tls_min_version", absl::GetFlag(FLAGS_tls_min_version), {"1.2", "1.3"});
  if (absl::GetFlag(FLAGS_tls_cert).empty() != absl::GetFlag(FLAGS_tls_key).empty()) {
    checks.Wrong(absl::GetFlag(FLAGS_tls_cert).empty() ? "tls_key" : "tls_cert",
                 "--tls_cert and --tls_key, or neither");
  }
  if (absl::GetFlag(FLAGS_tls_cert).empty() && !absl::GetFlag(FLAGS_tls_client_ca).empty()) {
    checks.Wrong("tls_client_ca", "--tls_cert and --tls_key with it");
  }
  return std::move(checks).mistakes();
}

bool CheckFlags(const Settings& settings) {
  const std::vector<std::string> mistakes = MistakesOf(settings);
  for (const std::string& mistake : mistakes) LogError(mistake);
  return mistakes.empty();
}

}  // namespace rnnserve
