// SPDX-License-Identifier: Apache-2.0
// Bearer tokens, and whom they stand for. The file has a line for each:
//
//   # tenant   token                                permissions
//   platform   sha256:5e884898da28047151d0e56f...   operator
//   speech     sha256:9f86d081884c7d659a2feaa0...   models
//   search     7Yk2mPq0x8vLrT5nWd3s
//
// A token is its text (16 characters or more) or the SHA-256 of it in hexadecimal. The permission `models` lets load
// and unload models of the tenant's own, `operator` those of everybody (and of any tenant). The file is read again when
// it changes; one that cannot be used is told in the log, and the tokens stay as they were.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace rnnserve {

// Whoever sent a call.
struct Caller {
  std::string tenant;  // "" where the server has no tokens
  bool may_change_models = true;
  bool is_operator = true;  // may change everybody's models and other tenants', too
  // The token has been taken away; what is open for it must end.
  std::atomic<bool> revoked = false;
};
using CallerPtr = std::shared_ptr<const Caller>;

class Tokens {
 public:
  // FAILED_PRECONDITION with the line that is wrong, never with a token.
  static absl::StatusOr<std::unique_ptr<Tokens>> Load(const std::string& path);
  ~Tokens();

  // Null if nobody has this token. Takes as long whatever part of a token is right.
  CallerPtr Find(std::string_view token) const;

  // Called after the file has been read again, on the thread that did. Not any more once another one is set.
  void OnChange(std::function<void()> told);

  // Reads the file if it has changed. The thread does so every second.
  void Refresh();

 private:
  using Table = std::unordered_map<std::string, std::shared_ptr<Caller>>;  // by keyed digest

  explicit Tokens(std::string path);
  absl::StatusOr<Table> Read() const;
  std::string Digest(std::string_view sha256) const;
  void Exchange(Table read);
  void Watch();

  const std::string path_;
  const std::string key_;  // random: digests cannot be steered by whoever tries tokens
  mutable Mutex mutex_;
  CondVar wake_;
  Table table_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex refresh_mutex_;
  // Of the file as it was read last: modified, size, inode.
  std::string version_ ABSL_GUARDED_BY(refresh_mutex_);
  std::string told_problem_ ABSL_GUARDED_BY(refresh_mutex_);  // since then
  std::function<void()> told_ ABSL_GUARDED_BY(refresh_mutex_) = [] {};

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
