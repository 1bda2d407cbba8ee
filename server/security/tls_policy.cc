// SPDX-License-Identifier: Apache-2.0
#include "server/security/tls_policy.h"

#include <openssl/conf.h>
#include <openssl/ssl.h>

#include <memory>

namespace rnnserve {
namespace {

// Of all contexts that are made from now on. gRPC sets the versions of its contexts, but leaves their options alone.
constexpr char kNoTls12[] =
    "rnnserve = modules\n"
    "[modules]\nssl_conf = contexts\n"
    "[contexts]\nsystem_default = options\n"
    "[options]\nProtocol = -TLSv1.2\n";

bool RefuseTls12() {
  OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, nullptr);  // the machine's own, which would be read later and replace this
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> text(BIO_new_mem_buf(kNoTls12, -1), &BIO_free_all);
  const std::unique_ptr<CONF, decltype(&NCONF_free)> config(NCONF_new(nullptr), &NCONF_free);
  long line = 0;
  if (text == nullptr || config == nullptr || NCONF_load_bio(config.get(), text.get(), &line) != 1) return false;
  if (CONF_modules_load(config.get(), "rnnserve", 0) != 1) return false;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  return context != nullptr && (SSL_CTX_get_options(context.get()) & SSL_OP_NO_TLSv1_2) != 0;
}

}  // namespace

absl::Status RequireTls13() {
  if (RefuseTls12()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tls_min_version=1.3: OpenSSL here does not let go of TLS 1.2; expected 1.2");
}

}  // namespace rnnserve
