// SPDX-License-Identifier: Apache-2.0
#include "engine/plugin/library.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/plugin/plugin_text.h"

namespace rnnserve::plugin {
namespace {

constexpr char kRebuild[] = "; build the plugin from the same source as this server";
// Names go into requests, replies and metrics.
constexpr size_t kMaxNameLength = 32;

struct StructSize {
  const char* name;
  uint32_t rnnserve_handshake::*size;
};
constexpr StructSize kStructs[] = {
    {"rnnserve_api", &rnnserve_handshake::api_size},
    {"rnnserve_engine_options", &rnnserve_handshake::options_size},
    {"rnnserve_cell", &rnnserve_handshake::cell_size},
    {"rnnserve_weights", &rnnserve_handshake::weights_size},
    {"rnnserve_slice", &rnnserve_handshake::slice_size},
    {"rnnserve_device_info", &rnnserve_handshake::device_info_size},
};

absl::Status CheckHandshake(const rnnserve_handshake& ours, const rnnserve_handshake& theirs) {
  if (theirs.abi_version != ours.abi_version) {
    return absl::FailedPreconditionError(absl::StrCat("it speaks version ", theirs.abi_version,
                                                      " of the engine ABI, expected ", ours.abi_version, kRebuild));
  }
  for (const StructSize& field : kStructs) {
    if (theirs.*field.size == ours.*field.size) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("its ", field.name, " has ", theirs.*field.size, " bytes, expected ", ours.*field.size, kRebuild));
  }
  return absl::OkStatus();
}

// The name of the first function that is missing, or null.
const char* MissingFunction(const rnnserve_api& api) {
  if (api.open == nullptr) return "open";
  if (api.close == nullptr) return "close";
  if (api.device_info == nullptr) return "device_info";
  if (api.supports == nullptr) return "supports";
  if (api.program_create == nullptr) return "program_create";
  if (api.program_destroy == nullptr) return "program_destroy";
  if (api.program_bytes == nullptr) return "program_bytes";
  if (api.state_create == nullptr) return "state_create";
  if (api.state_destroy == nullptr) return "state_destroy";
  if (api.state_import == nullptr) return "state_import";
  if (api.state_export == nullptr) return "state_export";
  if (api.workspace_create == nullptr) return "workspace_create";
  if (api.workspace_destroy == nullptr) return "workspace_destroy";
  if (api.advance == nullptr) return "advance";
  return nullptr;
}

bool IsName(const char* name) {
  size_t length = 0;
  for (; length <= kMaxNameLength && name[length] != '\0'; ++length) {
    const char c = name[length];
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!good) return false;
  }
  return length > 0 && length <= kMaxNameLength;
}

absl::StatusOr<const rnnserve_api*> ShakeHands(void* library) {
  // POSIX's way from an object pointer to a function's.
  const auto entry = reinterpret_cast<rnnserve_engine_api_fn>(dlsym(library, RNNSERVE_ENGINE_API_SYMBOL));
  if (entry == nullptr) {
    return absl::FailedPreconditionError("it is a shared library without the symbol " RNNSERVE_ENGINE_API_SYMBOL
                                         ": not a plugin of rnnserve");
  }
  constexpr rnnserve_handshake kOurs = RNNSERVE_HANDSHAKE;
  const rnnserve_api* const api = entry(&kOurs);
  if (api == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("it does not serve version ", kOurs.abi_version, " of the engine ABI, expected here", kRebuild));
  }
  // Nothing behind the handshake means anything before it is found equal.
  if (absl::Status agreed = CheckHandshake(kOurs, api->handshake); !agreed.ok()) return agreed;
  if (const char* missing = MissingFunction(*api); missing != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("its function ", missing, " is NULL, expected all functions"));
  }
  if (api->name == nullptr || !IsName(api->name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("its engine's name is ",
                     api->name == nullptr ? "NULL" : absl::StrCat("\"", Printable(api->name, kMaxNameLength + 1), "\""),
                     ", expected 1 to ", kMaxNameLength, " of a-z, 0-9, _ and -"));
  }
  return api;
}

}  // namespace

absl::StatusOr<const rnnserve_api*> OpenLibrary(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path of a plugin is empty; name a shared library");
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("plugin \"", path, "\" cannot be loaded: ", reason == nullptr ? "no reason given" : reason));
  }
  absl::StatusOr<const rnnserve_api*> api = ShakeHands(library);
  if (api.ok()) return api;
  return absl::Status(api.status().code(), absl::StrCat("plugin \"", path, "\": ", api.status().message()));
}

}  // namespace rnnserve::plugin
