// SPDX-License-Identifier: Apache-2.0
#include "server/store/tls_session.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"

namespace rnnserve {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// OpenSSL's reason, of this thread's latest error.
std::string TlsReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "no reason given" : reason;
}

absl::Status BadFile(const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", View(what), ": ", TlsReason()));
}

absl::Status UseFiles(const StoreAddress& address, SSL_CTX* context) {
  if (address.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  } else if (SSL_CTX_load_verify_file(context, address.ca_file.c_str()) != 1) {
    return BadFile(address.ca_file, "no certificates of a CA");
  }
  if (address.cert_file.empty()) return absl::OkStatus();
  if (SSL_CTX_use_certificate_chain_file(context, address.cert_file.c_str()) != 1) {
    return BadFile(address.cert_file, "no certificate");
  }
  if (SSL_CTX_use_PrivateKey_file(context, address.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return BadFile(address.key_file, absl::StrCat("no key of ", address.cert_file));
  }
  return absl::OkStatus();
}

// For this host alone; an IP address is no name.
bool ExpectHost(SSL* ssl, const std::string& host) {
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return true;
  return SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsSession>> TlsSession::Make(const StoreAddress& address, const std::string& host) {
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, FreeContext> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::FailedPreconditionError(absl::StrCat("TLS cannot be set up: ", TlsReason()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (absl::Status used = UseFiles(address, context.get()); !used.ok()) return used;

  SSL* const ssl = SSL_new(context.get());
  if (ssl == nullptr) return absl::FailedPreconditionError(absl::StrCat("TLS cannot be set up: ", TlsReason()));
  std::unique_ptr<TlsSession> session(new TlsSession(ssl));
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(ssl);
  if (!ExpectHost(ssl, host)) return absl::FailedPreconditionError(absl::StrCat("\"", host, "\" is no name for TLS"));
  return session;
}

absl::Status TlsSession::Handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done == 1 || SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ) return absl::OkStatus();
  const long verified = SSL_get_verify_result(ssl_.get());
  return absl::UnavailableError(absl::StrCat(
      "the TLS handshake failed: ", verified == X509_V_OK ? TlsReason() : X509_verify_cert_error_string(verified)));
}

void TlsSession::TakeOutput(std::string& out) {
  BIO* const output = SSL_get_wbio(ssl_.get());
  const size_t before = out.size();
  out.resize(before + BIO_ctrl_pending(output));
  if (out.size() > before) BIO_read(output, out.data() + before, static_cast<int>(out.size() - before));
}

absl::Status TlsSession::Begin(std::string& out) {
  absl::Status begun = Handshake();
  TakeOutput(out);
  return begun;
}

absl::Status TlsSession::Receive(std::string_view bytes, std::string& plain, std::string& out) {
  BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
  if (!is_open()) {
    absl::Status shaken = Handshake();
    TakeOutput(out);
    if (!shaken.ok() || !is_open()) return shaken;
  }
  std::array<char, 16 << 10> buffer;
  ERR_clear_error();
  while (true) {
    size_t count = 0;
    // (SSL_read is another function in the server: transport/guarded_reads.h.)
    const int read = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &count);
    if (read == 1) {
      plain.append(buffer.data(), count);
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), read);
    TakeOutput(out);
    if (error == SSL_ERROR_WANT_READ) return absl::OkStatus();
    if (error == SSL_ERROR_ZERO_RETURN) return absl::UnavailableError("it closed the connection");
    return absl::UnavailableError(absl::StrCat("TLS failed: ", TlsReason()));
  }
}

absl::Status TlsSession::Send(std::string_view plain, std::string& out) {
  if (plain.empty()) return absl::OkStatus();
  ERR_clear_error();
  size_t written = 0;
  if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1 || written != plain.size()) {
    return absl::UnavailableError(absl::StrCat("TLS failed: ", TlsReason()));
  }
  TakeOutput(out);
  return absl::OkStatus();
}

}  // namespace rnnserve
