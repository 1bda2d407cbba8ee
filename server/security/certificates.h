// SPDX-License-Identifier: Apache-2.0
// The server's certificate, its key and the authorities that sign callers' certificates, from files that are reloaded
// when they change. If the new files cannot be used, the log says so and the old certificate stays in force.
//
//   auto certificates = Certificates::Load({"tls.crt", "tls.key"}).value();
//   certificates->InForce()->expiry;
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace rnnserve {

// PEM files.
struct TlsFiles {
  std::string certificate = {};  // the server's, with the chain behind it; empty: no TLS
  std::string key = {};
  std::string client_ca = {};  // callers must show a certificate that one of these has signed; empty: they need none
};

class Certificates {
 public:
  // What stands in the files: a certificate with the key that fits it.
  struct Content {
    std::string certificate;
    std::string key;
    std::string client_ca;
    absl::Time expiry;
  };

  // FAILED_PRECONDITION says which file cannot be used and why.
  static absl::StatusOr<std::shared_ptr<Certificates>> Load(TlsFiles files);
  ~Certificates();

  std::shared_ptr<const Content> InForce() const;
  bool asks_callers() const { return !files_.client_ca.empty(); }

  // Reads the files if one of them has changed. The thread does so every second.
  void Refresh();

 private:
  explicit Certificates(TlsFiles files) : files_(std::move(files)) {}
  std::string Version() const;
  void Watch();

  const TlsFiles files_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::shared_ptr<const Content> in_force_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex refresh_mutex_;
  std::string version_ ABSL_GUARDED_BY(refresh_mutex_);    // of the files as they were read last
  std::string suspected_ ABSL_GUARDED_BY(refresh_mutex_);  // what was wrong with them at the last look
  std::string logged_ ABSL_GUARDED_BY(refresh_mutex_);     // and has been told

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
