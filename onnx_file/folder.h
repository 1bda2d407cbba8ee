// SPDX-License-Identifier: Apache-2.0
// Files below a folder, and never outside it: a path is opened first and then asked where it really lies, so that no
// link leads out, however and whenever it is put there. Links that stay inside are followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace rnnserve {

// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

// A regular file, open for reading.
class File {
 public:
  int fd() const { return descriptor_.fd(); }
  int64_t size() const { return size_; }

  // OUT_OF_RANGE if the file does not hold these bytes; nothing is allocated then.
  absl::StatusOr<std::string> Read(int64_t offset, int64_t length) const;

 private:
  friend class Folder;
  File(Descriptor descriptor, int64_t size) : descriptor_(std::move(descriptor)), size_(size) {}
  Descriptor descriptor_;
  int64_t size_;
};

// Errors say what is wrong with the path, without naming it: NOT_FOUND, or FAILED_PRECONDITION for all else.
class Folder {
 public:
  // The topmost folder. May itself be a link.
  static absl::StatusOr<Folder> Open(const std::string& path);

  // `name` (one component) as a folder that lies inside the topmost one.
  absl::StatusOr<Folder> OpenFolder(const std::string& name) const;
  // `name` (one component) as a file that lies inside the topmost folder.
  absl::StatusOr<File> OpenFile(const std::string& name) const;
  // `path` (relative, without `..`) as a file that lies inside this folder.
  absl::StatusOr<File> OpenOwnFile(std::string_view path) const;

  // Changes when a file here or in a folder below, a few levels deep, is written, replaced, added or taken away.
  size_t Stamp(int levels = 4) const;

  // What lies here, by name, without hidden entries.
  absl::StatusOr<std::vector<std::string>> Names() const;

 private:
  Folder(Descriptor descriptor, std::string real, std::string top)
      : descriptor_(std::move(descriptor)), real_(std::move(real)), top_(std::move(top)) {}
  absl::StatusOr<File> OpenFileInside(const std::string& path, const std::string& bound) const;

  Descriptor descriptor_;
  std::string real_;  // path without links
  std::string top_;   // of the topmost folder
};

}  // namespace rnnserve
