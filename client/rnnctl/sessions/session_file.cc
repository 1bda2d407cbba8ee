// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/sessions/session_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "client/rnnctl/session_json.h"

namespace rnnserve::rnnctl {
namespace {

constexpr std::string_view kFormat = "rnnserve-session-1";

// Of what is meant, not of how JSON spells it.
std::string Checksum(const client::SessionState& state) {
  std::string all = absl::StrCat(state.number, " ", state.position, " ", state.fingerprint);
  for (const client::Tensor& tensor : state.tensors) {
    absl::StrAppend(&all, "\n", tensor.name, " ", static_cast<int>(tensor.type), " ", ShapeString(tensor.shape), " ",
                    tensor.bytes);
  }
  return absl::StrFormat("%08x", Crc32c(all));
}

}  // namespace

std::string FormatSession(const client::SessionState& state) {
  std::string json = ToJson(state);
  const size_t brace = json.find('{');
  return absl::StrCat("{\n \"format\": \"", absl::string_view(kFormat.data(), kFormat.size()), "\",\n \"crc32c\": \"",
                      Checksum(state), "\",", json.substr(brace + 1));
}

absl::StatusOr<client::SessionState> ParseSession(std::string_view file) {
  const std::string format = JsonField(file, "format");
  if (format != kFormat) {
    return absl::InvalidArgumentError(format.empty() ? "is no session file; rnnctl sessions export writes them"
                                                     : absl::StrCat("is a session file of another format (", format,
                                                                    "); this rnnctl reads ",
                                                                    absl::string_view(kFormat.data(), kFormat.size())));
  }
  ASSIGN_OR_RETURN(client::SessionState state, ParseStateJson(file));
  if (JsonField(file, "crc32c") != Checksum(state)) {
    return absl::InvalidArgumentError(
        "is damaged: its checksum is not that of what it holds; export the session again");
  }
  return state;
}

}  // namespace rnnserve::rnnctl
