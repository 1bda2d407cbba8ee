// SPDX-License-Identifier: Apache-2.0
// Reads a file whose path an operator has given, while others may put anything in its place: settings, tokens,
// certificates. Never waits: opening a pipe would, until another process writes to it, and a device may have no end.
//
//   absl::StatusOr<std::string> text = ReadPlainFile("/etc/rnnserve/tokens", /*most=*/1 << 20);
//
// For files that must lie inside a folder see onnx_file/folder.h.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace rnnserve {

// The whole content, of at most `most` bytes. Links are followed: Kubernetes mounts secrets as such.
// FAILED_PRECONDITION, with the path: it cannot be read, it is no regular file, or it is larger.
absl::StatusOr<std::string> ReadPlainFile(const std::string& path, size_t most);

}  // namespace rnnserve
