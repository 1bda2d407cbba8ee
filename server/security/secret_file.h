// SPDX-License-Identifier: Apache-2.0
// The secret that servers of one session store share: one or two lines, each a secret of 32 characters or more. The
// first makes keys of sessions, both recognize them, so that a secret is replaced without a session being lost: add the
// new one as the second line everywhere, then swap the lines everywhere, and later take the old one out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rnnserve {

class SecretFile {
 public:
  using Secrets = std::vector<std::string>;

  // FAILED_PRECONDITION with the path and what is wrong, never with a secret.
  static absl::StatusOr<SecretFile> Load(const std::string& path);

  const Secrets& secrets() const { return secrets_; }
  // Reads the file if it has changed: the secrets from now on. A file with a mistake is logged once and changes
  // nothing.
  std::optional<Secrets> Refresh();

 private:
  explicit SecretFile(std::string path);

  std::string path_;
  std::string version_;  // of the file as it was read last
  Secrets secrets_;
};

}  // namespace rnnserve
