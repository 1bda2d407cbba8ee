// SPDX-License-Identifier: Apache-2.0
#include "engine/plugin/open_engine.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace rnnserve::plugin {
namespace {

// A pebibyte. What is summed up of devices and programs stays far from overflow.
constexpr int64_t kMostMemory = int64_t{1} << 50;

std::optional<absl::StatusCode> StatusCodeOf(int32_t code) {
  switch (code) {
    case RNNSERVE_INVALID_ARGUMENT:
      return absl::StatusCode::kInvalidArgument;
    case RNNSERVE_RESOURCE_EXHAUSTED:
      return absl::StatusCode::kResourceExhausted;
    case RNNSERVE_UNIMPLEMENTED:
      return absl::StatusCode::kUnimplemented;
    case RNNSERVE_INTERNAL:
      return absl::StatusCode::kInternal;
    case RNNSERVE_UNAVAILABLE:
      return absl::StatusCode::kUnavailable;
    case RNNSERVE_DATA_LOSS:
      return absl::StatusCode::kDataLoss;
    default:
      return std::nullopt;
  }
}

absl::Status Failure(int32_t code, const std::string& text) {
  if (const auto known = StatusCodeOf(code)) return absl::Status(*known, text);
  return absl::InternalError(absl::StrCat(text, " (code ", code, ", which the engine ABI does not have)"));
}

std::string Doing(const char* engine, const char* doing) {
  return absl::StrCat("engine \"", engine, "\", ", doing, ": ");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OpenEngine>> OpenEngine::Open(const rnnserve_api& api,
                                                                   const rnnserve_engine_options& options,
                                                                   std::function<void(const std::string&)> on_failure) {
  rnnserve_engine* opened = nullptr;
  ErrorText error;
  const int32_t code = api.open(&options, &opened, error.data(), error.size());
  if (code != RNNSERVE_OK) return Failure(code, absl::StrCat(Doing(api.name, "opening"), error.text()));
  if (opened == nullptr) {
    return absl::InternalError(absl::StrCat(Doing(api.name, "opening"), "it reported success but made nothing"));
  }
  std::shared_ptr<const OpenEngine> engine(new OpenEngine(api, opened, std::move(on_failure)));
  ASSIGN_OR_RETURN(rnnserve_device_info info, engine->Info());
  if (info.healthy == 0) {
    return absl::UnavailableError(
        absl::StrCat(Doing(api.name, "opening"), Printable(info.failure, sizeof info.failure)));
  }
  return engine;
}

absl::StatusOr<rnnserve_device_info> OpenEngine::Info() const {
  rnnserve_device_info info{};
  ErrorText error;
  const int32_t code = api_.device_info(engine_, &info, error.data(), error.size());
  const std::string doing = Doing(api_.name, "describing its device");
  if (code != RNNSERVE_OK) return Failure(code, absl::StrCat(doing, error.text()));
  if (info.memory_limit_bytes <= 0 || info.memory_in_use_bytes < 0 ||
      info.memory_in_use_bytes > info.memory_limit_bytes) {
    return absl::InternalError(absl::StrCat(doing, "it says that ", info.memory_in_use_bytes, " of its limit of ",
                                            info.memory_limit_bytes,
                                            " bytes are in use, expected a limit above 0 and a use from 0 to it"));
  }
  if (info.memory_limit_bytes > info.memory_total_bytes || info.memory_total_bytes > kMostMemory) {
    return absl::InternalError(absl::StrCat(doing, "it says that it may use ", info.memory_limit_bytes, " of ",
                                            info.memory_total_bytes, " bytes, expected at most all of them, and those ",
                                            "at most ", kMostMemory));
  }
  return info;
}

absl::Status OpenEngine::Check(int32_t code, const char* doing, const ErrorText& error) const {
  if (code == RNNSERVE_OK) return absl::OkStatus();
  const bool callers_own =
      code == RNNSERVE_INVALID_ARGUMENT || code == RNNSERVE_RESOURCE_EXHAUSTED || code == RNNSERVE_UNIMPLEMENTED;
  if (!callers_own) LookForFailure();
  return Failure(code, absl::StrCat(Doing(api_.name, doing), error.text()));
}

absl::Status OpenEngine::NoResult(const char* doing) const {
  return absl::InternalError(absl::StrCat(Doing(api_.name, doing), "it reported success but made nothing"));
}

absl::Status OpenEngine::InService() const {
  if (!failed_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(mutex_);
  return absl::UnavailableError(absl::StrCat("out of service: ", failure_));
}

void OpenEngine::LookForFailure() const {
  rnnserve_device_info info{};
  ErrorText error;
  if (api_.device_info(engine_, &info, error.data(), error.size()) != RNNSERVE_OK || info.healthy != 0) return;
  std::string reason = Printable(info.failure, sizeof info.failure);
  if (reason.empty()) reason = "no reason given";
  {
    MutexLock lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    failure_ = reason;
    failed_.store(true, std::memory_order_release);
  }
  if (on_failure_) on_failure_(reason);
}

}  // namespace rnnserve::plugin
