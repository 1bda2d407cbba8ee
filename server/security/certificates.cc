// SPDX-License-Identifier: Apache-2.0
#include "server/security/certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <chrono>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/files/plain_file.h"
#include "server/security/file_version.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr std::chrono::seconds kRereadInterval(1);
constexpr size_t kMaxPemBytes = 16 << 20;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<&BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<&X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;

Bio Open(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

absl::Status Unusable(const std::string& path, absl::string_view what) {
  std::array<char, 256> reason = {};
  ERR_error_string_n(ERR_peek_last_error(), reason.data(), reason.size());
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what, " (", reason.data(), ")"));
}

absl::StatusOr<std::string> Read(const std::string& path) {
  absl::StatusOr<std::string> text = ReadPlainFile(path, kMaxPemBytes);
  if (text.ok() && text->empty()) return absl::FailedPreconditionError(absl::StrCat(path, ": is empty"));
  return text;
}

// The first certificate of `text`; all others are whole as well.
absl::StatusOr<Certificate> FirstOf(const std::string& path, const std::string& text) {
  const Bio bio = Open(text);
  Certificate first(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
  if (first == nullptr) return Unusable(path, "no certificate in PEM form");
  while (Certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) != nullptr) {
  }
  const unsigned long last = ERR_peek_last_error();
  if (ERR_GET_LIB(last) != ERR_LIB_PEM || ERR_GET_REASON(last) != PEM_R_NO_START_LINE) {
    return Unusable(path, "a certificate after the first one is not whole");
  }
  ERR_clear_error();
  return first;
}

// What gRPC would only tell its log, and each caller by hanging up.
absl::StatusOr<Certificates::Content> Check(const TlsFiles& files) {
  ASSIGN_OR_RETURN(std::string certificate_text, Read(files.certificate));
  ASSIGN_OR_RETURN(std::string key_text, Read(files.key));
  ERR_clear_error();
  ASSIGN_OR_RETURN(const Certificate certificate, FirstOf(files.certificate, certificate_text));
  char no_passphrase[] = "";  // else OpenSSL asks the terminal
  const Key key(PEM_read_bio_PrivateKey(Open(key_text).get(), nullptr, nullptr, no_passphrase));
  if (key == nullptr) return Unusable(files.key, "no private key in PEM form, or one with a passphrase");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Unusable(files.key, absl::StrCat("the private key does not fit ", files.certificate));
  }
  const std::unique_ptr<SSL_CTX, Free<&SSL_CTX_free>> context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr || SSL_CTX_use_certificate(context.get(), certificate.get()) != 1) {
    return Unusable(files.certificate, "OpenSSL does not take the certificate");
  }
  std::string client_ca;
  if (!files.client_ca.empty()) {
    ASSIGN_OR_RETURN(std::string text, Read(files.client_ca));
    if (const auto first = FirstOf(files.client_ca, text); !first.ok()) return first.status();
    client_ca = std::move(text);
  }
  std::tm expiry = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &expiry) != 1) {
    return Unusable(files.certificate, "no expiry");
  }
  return Certificates::Content{std::move(certificate_text), std::move(key_text), std::move(client_ca),
                               absl::FromTimeT(timegm(&expiry))};
}

std::string Utc(absl::Time time) { return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone()); }

void LogIfExpired(const std::string& path, absl::Time expiry) {
  if (expiry > absl::Now()) return;
  LogWarning(absl::StrCat(path, " has expired at ", Utc(expiry),
                          ": callers will refuse it until another one is put in its place"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Certificates>> Certificates::Load(TlsFiles files) {
  const std::shared_ptr<Certificates> certificates(new Certificates(std::move(files)));
  {
    const MutexLock refresh(certificates->refresh_mutex_);
    certificates->version_ = certificates->Version();
  }
  ASSIGN_OR_RETURN(Content content, Check(certificates->files_));
  LogIfExpired(certificates->files_.certificate, content.expiry);
  {
    const MutexLock lock(certificates->mutex_);
    certificates->in_force_ = std::make_shared<const Content>(std::move(content));
  }
  certificates->thread_ = std::thread([raw = certificates.get()] { raw->Watch(); });
  return certificates;
}

Certificates::~Certificates() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Certificates::Content> Certificates::InForce() const {
  const MutexLock lock(mutex_);
  return in_force_;
}

std::string Certificates::Version() const {
  return absl::StrCat(FileVersion(files_.certificate), ", ", FileVersion(files_.key), ", ",
                      FileVersion(files_.client_ca));
}

void Certificates::Refresh() {
  const MutexLock refresh_lock(refresh_mutex_);
  std::string version = Version();
  if (version == version_) return;
  absl::StatusOr<Content> read = Check(files_);
  if (!read.ok()) {
    // Certificate and key come one after the other: what is wrong at one look only is not told.
    const std::string wrong(read.status().message());
    if (std::exchange(suspected_, wrong) != wrong || std::exchange(logged_, wrong) == wrong) return;
    LogError(
        absl::StrCat("the certificate stays as it was, which is valid until ", Utc(InForce()->expiry), ": ", wrong));
    return;
  }
  version_ = std::move(version);
  suspected_.clear();
  logged_.clear();
  LogInfo(absl::StrCat("certificate read again: ", files_.certificate, ", valid until ", Utc(read->expiry)));
  LogIfExpired(files_.certificate, read->expiry);
  const MutexLock lock(mutex_);
  in_force_ = std::make_shared<const Content>(*std::move(read));
}

void Certificates::Watch() {
  MutexLock lock(mutex_);
  while (!wake_.wait_for(lock, kRereadInterval, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; })) {
    lock.unlock();
    Refresh();
    lock.lock();
  }
}

}  // namespace rnnserve
