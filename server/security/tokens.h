// SPDX-License-Identifier: Apache-2.0
// Bearer tokens and the tenants that they stand for. The file has a line for each:
//
//   # tenant   token                                permissions
//   platform   sha256:5e884898da28047151d0e56f...   operator
//   speech     sha256:9f86d081884c7d659a2feaa0...   models
//   search     7Yk2mPq0x8vLrT5nWd3s
//
// A token is its text (16 characters or more) or the SHA-256 of it in hexadecimal. The permission `models` allows its
// callers to load and unload models of their own tenant, `operator` also shared models and those of any tenant. The
// file is reloaded when it changes; if it has a mistake, the log says so and the tokens stay as they were.
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

// The sender of a call.
struct Caller {
  std::string tenant;  // "" where the server has no tokens
  bool may_change_models = true;
  bool is_operator = true;  // may change shared models and those of other tenants, too
  // The token is no longer in the file: streams opened with it must end.
  std::atomic<bool> revoked = false;
};
using CallerPtr = std::shared_ptr<const Caller>;

class Tokens {
 public:
  // FAILED_PRECONDITION with the line that is wrong, never with a token.
  static absl::StatusOr<std::unique_ptr<Tokens>> Load(const std::string& path);
  ~Tokens();

  // Null if no caller has this token. The time does not depend on which part of a token is right.
  CallerPtr Find(std::string_view token) const;

  // `on_change` is called after each reload, on the thread that reloads. Setting another one replaces it.
  void OnChange(std::function<void()> on_change);

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
  const std::string key_;  // random: an attacker cannot choose digests
  mutable Mutex mutex_;
  CondVar wake_;
  Table table_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex refresh_mutex_;
  // The file as it was last read: time of change, size, inode.
  std::string version_ ABSL_GUARDED_BY(refresh_mutex_);
  std::string logged_problem_ ABSL_GUARDED_BY(refresh_mutex_);  // since then
  std::function<void()> on_change_ ABSL_GUARDED_BY(refresh_mutex_) = [] {};

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
