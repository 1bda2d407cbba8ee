// SPDX-License-Identifier: Apache-2.0
#include "server/security/secret_file.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "server/files/plain_file.h"
#include "server/security/file_version.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr size_t kMostBytes = 64 << 10;
constexpr size_t kShortest = 32;
constexpr size_t kMost = 2;

absl::StatusOr<SecretFile::Secrets> ReadSecrets(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadPlainFile(path, kMostBytes));
  SecretFile::Secrets secrets;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view secret = absl::StripAsciiWhitespace(line);
    if (secret.empty()) continue;
    if (secret.size() < kShortest) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": a secret has ", secret.size(),
                                                        " characters; it needs ", kShortest,
                                                        " or more (openssl rand -base64 32)"));
    }
    secrets.emplace_back(secret);
  }
  if (secrets.empty() || secrets.size() > kMost) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " has ", secrets.size(), " lines with a secret; expected 1 or ", kMost, " (openssl rand -base64 32)"));
  }
  return secrets;
}

}  // namespace

SecretFile::SecretFile(std::string path) : path_(std::move(path)), version_(FileVersion(path_)) {}

absl::StatusOr<SecretFile> SecretFile::Load(const std::string& path) {
  SecretFile file(path);
  ASSIGN_OR_RETURN(file.secrets_, ReadSecrets(path));
  return file;
}

std::optional<SecretFile::Secrets> SecretFile::Refresh() {
  std::string version = FileVersion(path_);
  if (version == version_) return std::nullopt;
  version_ = std::move(version);
  absl::StatusOr<Secrets> secrets = ReadSecrets(path_);
  if (!secrets.ok()) {
    LogWarning(absl::StrCat("--session_secret_file: ", secrets.status().message(), "; the secrets stay as they were"));
    return std::nullopt;
  }
  if (*secrets == secrets_) return std::nullopt;
  secrets_ = *std::move(secrets);
  LogInfo(absl::StrCat("--session_secret_file: ", secrets_.size(), " secrets from now on"));
  return secrets_;
}

}  // namespace rnnserve
