// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/security/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr unsigned kRefreshSeconds = 1;

absl::Status Unusable(const std::string& path, absl::string_view what) {
  std::array<char, 256> reason = {};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what, " (", reason.data(), ")"));
}

// What gRPC would only tell its log, and each caller by hanging up.
absl::Status Check(const TlsFiles& files) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return Unusable(files.certificate, "OpenSSL does not start");
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
    return Unusable(files.certificate, "no certificate in PEM form");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Unusable(files.key, absl::StrCat("no private key in PEM form that fits ", files.certificate));
  }
  if (!files.client_ca.empty() && SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(), nullptr) != 1) {
    return Unusable(files.client_ca, "no certificates in PEM form");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const TlsFiles& files) {
  if (files.certificate.empty()) return grpc::InsecureServerCredentials();
  if (absl::Status usable = Check(files); !usable.ok()) return usable;
  if (const absl::StatusOr<absl::Time> expiry = CertificateExpiry(files.certificate);
      expiry.ok() && *expiry <= absl::Now()) {
    LogWarning(absl::StrCat(files.certificate, " has expired at ", absl::FormatTime(*expiry, absl::UTCTimeZone()),
                            ": callers will refuse it until another one is put in its place"));
  }
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_ca, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

absl::StatusOr<absl::Time> CertificateExpiry(const std::string& path) {
  const auto close = [](std::FILE* opened) { std::fclose(opened); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "r"), close);
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr),
                                                                &X509_free);
  if (certificate == nullptr) return Unusable(path, "no certificate in PEM form");
  std::tm expiry = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &expiry) != 1) return Unusable(path, "no expiry");
  return absl::FromTimeT(timegm(&expiry));
}

}  // namespace rnnserve
