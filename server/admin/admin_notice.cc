// SPDX-License-Identifier: Apache-2.0
#include "server/admin/admin_notice.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rnnserve {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "rnnserve-admin";
constexpr std::string_view kLink = "/memfd:rnnserve-admin (deleted)";  // as the kernel shows it

bool IsThisProgram(const fs::path& process) {
  struct stat own = {}, other = {};
  return stat("/proc/self/exe", &own) == 0 && stat((process / "exe").c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

// Processes end and files are closed while one looks: what cannot be read is not there.
std::vector<fs::path> FilesIn(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    files.push_back(file->path());
  }
  return files;
}

// Nothing: no server, or one that is starting.
std::optional<std::string> NoticeOf(const fs::path& process) {
  std::error_code error;
  for (const fs::path& file : FilesIn(process / "fd")) {
    if (fs::read_symlink(file, error).native() != kLink) continue;
    std::ifstream notice(file);
    return std::string(std::istreambuf_iterator<char>(notice), {});
  }
  return std::nullopt;
}

}  // namespace

absl::Status PostAdminNotice(const std::string& listen, int port) {
  const std::string text = port == 0 ? "" : absl::StrCat(listen.substr(0, listen.rfind(':') + 1), port);
  const int fd = memfd_create(kName, MFD_CLOEXEC);
  if (fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("no file without a name can be made (memfd_create)");
}

std::vector<AdminNotice> ReadAdminNotices() {
  std::vector<AdminNotice> notices;
  for (const fs::path& process : FilesIn("/proc")) {
    int id = 0;
    if (!absl::SimpleAtoi(process.filename().native(), &id) || !IsThisProgram(process)) continue;
    if (std::optional<std::string> listen = NoticeOf(process)) notices.push_back({id, *std::move(listen)});
  }
  std::ranges::sort(notices, {}, &AdminNotice::process);
  return notices;
}

absl::StatusOr<std::string> ChooseAdminPort(const std::vector<AdminNotice>& notices) {
  if (notices.empty()) return absl::NotFoundError("no other process of this program and this user serves here");
  const AdminNotice& first = notices.front();
  if (first.process != 1 && notices.size() > 1) {
    const auto tell = [](std::string* text, const AdminNotice& notice) {
      absl::StrAppend(text, "process ", notice.process, " at ", notice.listen.empty() ? "no port" : notice.listen);
    };
    return absl::FailedPreconditionError(absl::StrCat("several servers run here, ", absl::StrJoin(notices, ", ", tell),
                                                      ": name one's port with --admin_listen"));
  }
  if (first.listen.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server, process ", first.process, ", has no admin port to ask: --admin_listen gives it one"));
  }
  return first.listen;
}

absl::StatusOr<std::string> FindAdminPort(const std::string& listen, bool is_default) {
  const bool has_port = !absl::EndsWith(listen, ":0");
  if (has_port && !is_default) return listen;
  absl::StatusOr<std::string> found = ChooseAdminPort(ReadAdminNotices());
  if (has_port && absl::IsNotFound(found.status())) return listen;
  return found;
}

}  // namespace rnnserve
