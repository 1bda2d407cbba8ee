// SPDX-License-Identifier: Apache-2.0
#include "server/files/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

class Open {
 public:
  // O_NONBLOCK: a pipe opens at once, with or without a writer; it changes nothing for regular files.
  explicit Open(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Open() {
    if (fd_ >= 0) close(fd_);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

absl::StatusOr<std::string> ReadPlainFile(const std::string& path, size_t most) {
  const auto unreadable = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be read: ", why));
  };
  const auto failed = [&](int error) { return unreadable(std::generic_category().message(error)); };
  const auto too_large = [&] {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has more than ", most, " bytes, which no file of its kind has"));
  };
  const Open file(path);
  if (file.fd() < 0) return failed(errno);
  struct stat info = {};
  if (fstat(file.fd(), &info) != 0) return failed(errno);
  if (!S_ISREG(info.st_mode)) return unreadable("it is no plain file");
  if (info.st_size > 0 && static_cast<size_t>(info.st_size) > most) return too_large();
  // One byte more than it had: the end is then seen without growing. It may have become longer meanwhile.
  std::string text(static_cast<size_t>(std::max<off_t>(info.st_size, 0)) + 1, '\0');
  size_t done = 0;
  for (;;) {
    if (done == text.size()) text.resize(std::min(2 * done, most + 1));
    const ssize_t got = read(file.fd(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    done += static_cast<size_t>(got);
    if (done > most) return too_large();
    if (got == 0) break;
  }
  text.resize(done);
  return text;
}

}  // namespace rnnserve
