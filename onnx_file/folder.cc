// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <system_error>

#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rnnserve {
namespace {

absl::Status SystemError(int error) {
  if (error == ENOENT) return absl::NotFoundError("does not exist");
  if (error == ENOTDIR) return absl::FailedPreconditionError("is not a folder");
  return absl::FailedPreconditionError(absl::StrCat("cannot be opened (", std::generic_category().message(error), ")"));
}

// Where an open file lies, without links.
absl::StatusOr<std::string> RealPath(int fd) {
  std::array<char, PATH_MAX> path;
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), path.data(), path.size());
  if (size <= 0 || static_cast<size_t>(size) == path.size()) {
    return absl::FailedPreconditionError("lies where cannot be told (is /proc mounted?)");
  }
  return std::string(path.data(), static_cast<size_t>(size));
}

bool IsInside(const std::string& path, const std::string& folder) {
  return absl::StartsWith(path, folder == "/" ? folder : absl::StrCat(folder, "/"));
}

struct Opened {
  Descriptor descriptor;
  std::string real;
};

// A pipe or a device must not hold us up: O_NONBLOCK changes nothing for regular files.
absl::StatusOr<Opened> OpenInside(int at, const std::string& path, int flags, const std::string& bound) {
  Descriptor descriptor(openat(at, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags));
  if (descriptor.fd() < 0) return SystemError(errno);
  absl::StatusOr<std::string> real = RealPath(descriptor.fd());
  if (!real.ok()) return real.status();
  if (!IsInside(*real, bound)) {
    return absl::FailedPreconditionError("is a link that leads out of the folder; put the file itself there");
  }
  return Opened{std::move(descriptor), *std::move(real)};
}

absl::Status CheckRelative(std::string_view path) {
  if (path.empty()) return absl::FailedPreconditionError("is empty");
  if (path.size() >= PATH_MAX) return absl::FailedPreconditionError("is longer than a path can be");
  if (path.find('\0') != std::string_view::npos) return absl::FailedPreconditionError("holds a zero byte");
  if (path[0] == '/') return absl::FailedPreconditionError("is absolute; it must be relative to the model's folder");
  for (const absl::string_view part : absl::StrSplit(absl::string_view(path.data(), path.size()), '/')) {
    if (part == "..") return absl::FailedPreconditionError("holds \"..\"; it must stay in the model's folder");
  }
  return absl::OkStatus();
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> File::Read(int64_t offset, int64_t length) const {
  if (offset < 0 || length < 0 || offset > size_ || length > size_ - offset) {
    return absl::OutOfRangeError(absl::StrCat("bytes ", offset, " to ", offset, " + ", length,
                                              " were asked for, but the file has ", size_, " bytes"));
  }
  std::string bytes(static_cast<size_t>(length), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd(), bytes.data() + done, bytes.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(errno);
    if (got == 0) return absl::OutOfRangeError("the file became shorter while it was read");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

absl::StatusOr<Folder> Folder::Open(const std::string& path) {
  Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (descriptor.fd() < 0) return SystemError(errno);
  absl::StatusOr<std::string> real = RealPath(descriptor.fd());
  if (!real.ok()) return real.status();
  return Folder(std::move(descriptor), *real, *real);
}

absl::StatusOr<Folder> Folder::OpenFolder(const std::string& name) const {
  absl::StatusOr<Opened> opened = OpenInside(descriptor_.fd(), name, O_DIRECTORY, top_);
  if (!opened.ok()) return opened.status();
  return Folder(std::move(opened->descriptor), std::move(opened->real), top_);
}

absl::StatusOr<File> Folder::OpenFile(const std::string& name) const { return OpenFileInside(name, top_); }

absl::StatusOr<File> Folder::OpenOwnFile(std::string_view path) const {
  if (absl::Status checked = CheckRelative(path); !checked.ok()) return checked;
  return OpenFileInside(std::string(path), real_);
}

absl::StatusOr<File> Folder::OpenFileInside(const std::string& path, const std::string& bound) const {
  absl::StatusOr<Opened> opened = OpenInside(descriptor_.fd(), path, 0, bound);
  if (!opened.ok()) return opened.status();
  struct stat info;
  if (fstat(opened->descriptor.fd(), &info) != 0) return SystemError(errno);
  if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError("is not a regular file");
  return File(std::move(opened->descriptor), info.st_size);
}

size_t Folder::Stamp(int levels) const {
  const absl::StatusOr<std::vector<std::string>> names = Names();
  if (!names.ok()) return 0;
  size_t stamp = 1;
  for (const std::string& name : *names) {
    struct stat info = {};
    if (fstatat(descriptor_.fd(), name.c_str(), &info, 0) != 0) info = {};  // a link to nowhere
    stamp = absl::HashOf(stamp, name, info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                         info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
    if (!S_ISDIR(info.st_mode) || levels == 0) continue;
    const absl::StatusOr<Folder> below = OpenFolder(name);
    stamp = absl::HashOf(stamp, below.ok() ? below->Stamp(levels - 1) : 0);
  }
  return stamp;
}

absl::StatusOr<std::vector<std::string>> Folder::Names() const {
  // A stream of its own: reading it moves a position.
  const int fd = openat(descriptor_.fd(), ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return SystemError(errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(fd), &closedir);
  if (stream == nullptr) {
    close(fd);
    return SystemError(ENOMEM);
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace rnnserve
