// SPDX-License-Identifier: Apache-2.0
#include "server/security/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>
#include <utility>

#include "base/mutex.h"

namespace rnnserve {
namespace {

// gRPC's own watcher of files takes whatever stands in them and lets the certificate before it go, so that a key which
// does not fit ends all handshakes. gRPC's C API asks at each handshake whether there is another one instead; its C++
// classes do not pass that on.
class WatchedCredentials final : public grpc::ServerCredentials {
 public:
  explicit WatchedCredentials(std::shared_ptr<const Certificates> certificates)
      : certificates_(std::move(certificates)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                certificates_->asks_callers() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                              : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &WatchedCredentials::Fetch, this))) {}
  ~WatchedCredentials() override { grpc_server_credentials_release(credentials_); }

  // Callers show tokens, which the gate looks at.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<WatchedCredentials*>(self)->FetchNew(config);
  }
  grpc_ssl_certificate_config_reload_status FetchNew(grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const Certificates::Content> now = certificates_->InForce();
    const MutexLock lock(mutex_);
    if (now == fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {now->key.c_str(), now->certificate.c_str()};
    // gRPC insists on some authorities; where callers are not asked for a certificate they are not used.
    const std::string& signers = certificates_->asks_callers() ? now->client_ca : now->certificate;
    *config = grpc_ssl_server_certificate_config_create(signers.c_str(), &pair, 1);
    fetched_ = std::move(now);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const Certificates> certificates_;
  Mutex mutex_;
  std::shared_ptr<const Certificates::Content> fetched_ ABSL_GUARDED_BY(mutex_);
  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(std::shared_ptr<const Certificates> certificates) {
  if (certificates == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<WatchedCredentials>(std::move(certificates));
}

}  // namespace rnnserve
