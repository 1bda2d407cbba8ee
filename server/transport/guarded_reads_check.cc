// SPDX-License-Identifier: Apache-2.0
// Whether gRPC's library reads through the functions of guarded_reads.cc. A gRPC that is built otherwise, reads with
// other functions or binds them itself would run without a guard and say nothing.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/telemetry/log.h"
#include "server/transport/guarded_reads.h"

namespace rnnserve {
namespace {

struct Import {
  std::string_view symbol;
  bool has_library = false;
  bool is_imported = false;
};

// Of the functions that a library calls in others, whether one has this name.
bool Imports(const ElfW(Dyn) * entry, std::string_view symbol) {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela)* calls = nullptr;
  size_t bytes = 0;
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_JMPREL) calls = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_PLTRELSZ) bytes = entry->d_un.d_val;
  }
  if (symbols == nullptr || names == nullptr || calls == nullptr) return false;
  for (size_t k = 0; k < bytes / sizeof(*calls); ++k) {
    if (names + symbols[ELF64_R_SYM(calls[k].r_info)].st_name == symbol) return true;
  }
  return false;
}

int Visit(dl_phdr_info* info, size_t, void* to) {
  auto* import = static_cast<Import*>(to);
  if (std::string_view(info->dlpi_name).find("/libgrpc.so") == std::string_view::npos) return 0;
  import->has_library = true;
  for (int k = 0; k < info->dlpi_phnum; ++k) {
    if (info->dlpi_phdr[k].p_type != PT_DYNAMIC) continue;
    const auto* dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[k].p_vaddr);
    import->is_imported = Imports(dynamic, import->symbol);
  }
  return 0;
}

// Empty: gRPC calls `ours`.
std::string WhyNot(const char* symbol, const void* ours) {
  Import import = {symbol};
  dl_iterate_phdr(&Visit, &import);
  if (import.has_library && !import.is_imported) return absl::StrCat("gRPC's library does not call ", symbol);
  if (dlsym(RTLD_DEFAULT, symbol) != ours)
    return absl::StrCat("libraries find another ", symbol, " than this program's");
  return "";
}

}  // namespace

void LogIfReadsAreUnguarded(bool with_tls) {
  const std::string why = with_tls ? WhyNot("SSL_read", reinterpret_cast<const void*>(&SSL_read))
                                   : WhyNot("recvmsg", reinterpret_cast<const void*>(&recvmsg));
  if (why.empty()) return;
  LogError(absl::StrCat("connections that flood the server with HTTP/2 frames are not closed: ", why,
                        "; keep strangers off, or run the gRPC that it was built for"));
}

}  // namespace rnnserve
