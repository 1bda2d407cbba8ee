// SPDX-License-Identifier: Apache-2.0
// An engine that a plugin has opened. Shared by the Engine, its programs and their states, so that it closes after all
// of them. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "engine/plugin/engine_abi.h"
#include "engine/plugin/plugin_text.h"

namespace rnnserve::plugin {

class OpenEngine {
 public:
  // `on_failure` may be empty; it is called at most once, with the reason, when the device is found out of service.
  static absl::StatusOr<std::shared_ptr<const OpenEngine>> Open(const rnnserve_api& api,
                                                                const rnnserve_engine_options& options,
                                                                std::function<void(const std::string&)> on_failure);
  ~OpenEngine() { api_.close(engine_); }
  OpenEngine(const OpenEngine&) = delete;
  OpenEngine& operator=(const OpenEngine&) = delete;

  const rnnserve_api& api() const { return api_; }
  rnnserve_engine* get() const { return engine_; }
  std::string_view name() const { return api_.name; }

  // What the device says of itself now; refused where the figures cannot be true.
  absl::StatusOr<rnnserve_device_info> Info() const;

  // The status of a call: OK, or one whose text says what was being done. A failure that may be the device's own makes
  // the engine look whether it is still in service.
  absl::Status Check(int32_t code, const char* doing, const ErrorText& error) const;
  // A call that succeeded without a result.
  absl::Status NoResult(const char* doing) const;

  // OK, or UNAVAILABLE once the device has failed for good.
  absl::Status InService() const;

 private:
  OpenEngine(const rnnserve_api& api, rnnserve_engine* engine, std::function<void(const std::string&)> on_failure)
      : api_(api), engine_(engine), on_failure_(std::move(on_failure)) {}
  void LookForFailure() const;

  const rnnserve_api& api_;
  rnnserve_engine* const engine_;
  const std::function<void(const std::string&)> on_failure_;
  mutable std::atomic<bool> failed_ = false;
  mutable Mutex mutex_;
  mutable std::string failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve::plugin
