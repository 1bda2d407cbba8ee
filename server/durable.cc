// SPDX-License-Identifier: Apache-2.0
#include "server/durable.h"

#include <string>
#include <utility>

#include "base/field_error.h"
#include "base/status_macros.h"
#include "server/config/flags.h"
#ifdef RNNSERVE_HAS_STORE
#include "server/store/redis_store.h"
#endif

namespace rnnserve {
namespace {

absl::StatusOr<std::unique_ptr<SessionStore>> OpenStore([[maybe_unused]] StoreMetrics* metrics) {
#ifdef RNNSERVE_HAS_STORE
  ASSIGN_OR_RETURN(StoreAddress address, ParseStoreAddress(absl::GetFlag(FLAGS_store)));
  RedisStore::Options options;
  options.address = std::move(address);
  options.metrics = metrics;
  return RedisStore::Create(std::move(options));
#else
  return absl::UnimplementedError("this server was built without hiredis (libhiredis-dev), so it has no session store");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<Durable>> Durable::Start(Metrics& metrics, SessionCore& core, MemorySessions& sessions) {
  std::unique_ptr<Durable> durable(new Durable(sessions));
  const std::string path = absl::GetFlag(FLAGS_session_secret_file);
  if (!path.empty()) {
    absl::StatusOr<SecretFile> secrets = SecretFile::Load(path);
    if (!secrets.ok()) return WithField(secrets.status(), "session_secret_file");
    sessions.SetSecrets(secrets->secrets());
    durable->secrets_.emplace(*std::move(secrets));
  }
  if (absl::GetFlag(FLAGS_store).empty()) return durable;
  if (!durable->secrets_) {
    return absl::FailedPreconditionError(
        "it needs --session_secret_file, the same secret on all servers of the store: they know each other's session "
        "keys by it (openssl rand -base64 32 makes one)");
  }
  durable->metrics_.emplace(metrics);
  ASSIGN_OR_RETURN(durable->store_, OpenStore(&*durable->metrics_));
  durable->codec_ = std::make_unique<SessionRecordCodec>(&core);
  durable->records_ = std::make_unique<SessionRecords>(durable->store_.get(), durable->codec_.get());
  sessions.UseRecords(durable->records_.get());
  return durable;
}

std::optional<bool> Durable::IsStoreReachable() const {
  if (store_ == nullptr) return std::nullopt;
  return store_->IsReachable();
}

void Durable::LookAtSecrets() {
  if (!secrets_) return;
  if (std::optional<SecretFile::Secrets> changed = secrets_->Refresh()) sessions_.SetSecrets(*std::move(changed));
}

}  // namespace rnnserve
