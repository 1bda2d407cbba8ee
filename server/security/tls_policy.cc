// SPDX-License-Identifier: Apache-2.0
#include "server/security/tls_policy.h"

#include <openssl/conf.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

using TlsContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
TlsContext NewTlsContext() { return {SSL_CTX_new(TLS_server_method()), &SSL_CTX_free}; }

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
  const TlsContext context = NewTlsContext();
  return context != nullptr && (SSL_CTX_get_options(context.get()) & SSL_OP_NO_TLSv1_2) != 0;
}

}  // namespace

absl::Status ApplyTlsPolicy(const TlsPolicy& policy) {
  if (!policy.ciphers.empty()) {
    const TlsContext context = NewTlsContext();
    if (context == nullptr || SSL_CTX_set_cipher_list(context.get(), policy.ciphers.c_str()) != 1) {
      return absl::InvalidArgumentError(absl::StrCat("--tls_ciphers=", policy.ciphers,
                                                     ": OpenSSL knows none of them for TLS 1.2; `openssl ciphers "
                                                     "-tls1_2` lists names"));
    }
    setenv("GRPC_SSL_CIPHER_SUITES", policy.ciphers.c_str(), /*overwrite=*/1);
  }
  if (policy.only_1_3 && !RefuseTls12()) {
    return absl::InvalidArgumentError("--tls_min_version=1.3: OpenSSL here does not let go of TLS 1.2; expected 1.2");
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
