// SPDX-License-Identifier: Apache-2.0
// rnnctl sessions ls, show, export, import, fork, close.
#include <algorithm>
#include <array>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "client/cpp/session_client.h"
#include "client/rnnctl/call.h"
#include "client/rnnctl/command.h"
#include "client/rnnctl/session_json.h"
#include "client/rnnctl/sessions/find.h"
#include "client/rnnctl/sessions/session_file.h"
#include "client/rnnctl/show.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

constexpr Flag kLimitFlag = {.name = "limit", .value = "N", .help = "list at most this many; default 1000"};
constexpr Flag kFileFlag = {
    .name = "out", .value = "FILE", .help = "where to write; - is standard output", .short_name = 'o'};
constexpr Flag kNameFlag = {.name = "name", .value = "NAME", .help = "of the new session"};
constexpr Flag kNamesFlag = {
    .name = "name", .value = "NAME", .help = "of a fork; as many as there are forks", .repeated = true};
constexpr Flag kCountFlag = {.name = "count", .value = "N", .help = "how many forks; default 1"};

using Sessions = std::unique_ptr<client::SessionClient>;

absl::StatusOr<Sessions> ConnectSessions(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const client::ClientOptions options, ClientOptionsFrom(arguments));
  absl::StatusOr<Sessions> sessions = client::SessionClient::Create(ServerAddress(arguments), options);
  if (!sessions.ok()) return UsageError(absl::StrCat("--server: ", sessions.status().message()));
  return sessions;
}

// --- ls, show

absl::Status RunSessionsList(const Arguments& arguments, Streams& streams) {
  RETURN_IF_ERROR(ExpectArguments(arguments, 0, ""));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, IntFlag(arguments, "limit", 1, 10'000'000));
  ASSIGN_OR_RETURN(const Sessions sessions, ConnectSessions(arguments));
  const auto most = static_cast<size_t>(limit.value_or(1000));
  ASSIGN_OR_RETURN(std::vector<client::SessionInfo> list, sessions->List(most + 1));
  const bool has_more = list.size() > most;
  if (has_more) list.pop_back();
  if (arguments.Has("json")) {
    streams.out << ToJson(list);
    return absl::OkStatus();
  }
  if (list.empty()) {
    streams.out << "no live sessions\n";
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "MODEL", "ROWS", "NUMBER", "STEPS", "STATE", "IDLE", "EXPIRES", "KEY"}};
  for (const client::SessionInfo& info : list) {
    rows.push_back({info.name.empty() ? "-" : info.name,
                    info.model.empty() ? info.fingerprint.substr(0, 12) : info.model, absl::StrCat(info.rows),
                    absl::StrCat(info.last_applied), absl::StrCat(info.position), absl::StrCat(info.state_bytes, " B"),
                    ShowTime(info.idle), ShowTime(info.expires_in), info.key});
  }
  streams.out << Printable(FormatTable(rows));
  if (has_more) streams.err << "there are more; --limit shows more than " << most << "\n";
  return absl::OkStatus();
}

absl::Status RunSessionsShow(const Arguments& arguments, Streams& streams) {
  RETURN_IF_ERROR(ExpectArguments(arguments, 1, "KEY or NAME"));
  ASSIGN_OR_RETURN(const Sessions sessions, ConnectSessions(arguments));
  ASSIGN_OR_RETURN(const client::SessionInfo info, FindSession(*sessions, arguments.positional()[0]));
  if (arguments.Has("json")) {
    streams.out << ToJson(info);
    return absl::OkStatus();
  }
  streams.out << Printable(FormatTable({{"key", info.key},
                                        {"name", info.name.empty() ? "-" : info.name},
                                        {"model", info.model.empty() ? "-" : info.model},
                                        {"fingerprint", info.fingerprint},
                                        {"rows", absl::StrCat(info.rows)},
                                        {"last number", absl::StrCat(info.last_applied)},
                                        {"steps", absl::StrCat(info.position)},
                                        {"state", absl::StrCat(info.state_bytes, " bytes")},
                                        {"idle", ShowTime(info.idle)},
                                        {"expires in", ShowTime(info.expires_in)}}));
  return absl::OkStatus();
}

// --- export, import

absl::Status WriteFile(const std::string& path, const std::string& text, Streams& streams) {
  if (path == "-") {
    streams.out << text;
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? absl::OkStatus() : OutputError(absl::StrCat("--out ", path, ": cannot write it"));
}

absl::Status RunExport(const Arguments& arguments, Streams& streams) {
  RETURN_IF_ERROR(ExpectArguments(arguments, 1, "KEY or NAME"));
  const std::optional<std::string> path = arguments.Get("out");
  if (!path) return UsageError("--out is missing: the file to write, or - for standard output");
  ASSIGN_OR_RETURN(const Sessions sessions, ConnectSessions(arguments));
  ASSIGN_OR_RETURN(const std::string key, FindKey(*sessions, arguments.positional()[0]));
  ASSIGN_OR_RETURN(const client::SessionState state, sessions->GetState(key));
  RETURN_IF_ERROR(WriteFile(*path, FormatSession(state), streams));
  if (*path != "-") {
    streams.out << "exported the state after number " << state.number << " (" << state.position << " steps) to "
                << *path << "\n";
  }
  return absl::OkStatus();
}

absl::Status OtherOperator(const std::string& file, const std::string& in_file, const std::string& there) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(file, " holds the state of another operator: its fingerprint is ",
                                                 in_file, ", that of ", there)),
      "FINGERPRINT_MISMATCH");
}

absl::Status RunImport(const Arguments& arguments, Streams& streams) {
  RETURN_IF_ERROR(ExpectArguments(arguments, 1, "FILE"));
  const std::string& path = arguments.positional()[0];
  ASSIGN_OR_RETURN(const std::string bytes, path == "-" ? ReadAll(streams.in, "standard input") : ReadFile(path));
  absl::StatusOr<client::SessionState> state = ParseSession(bytes);
  if (!state.ok()) return UsageError(absl::StrCat(path, " ", state.status().message()));

  client::SessionSpec spec;
  spec.target = client::Fingerprint{state->fingerprint};
  spec.state = state->tensors;
  spec.name = arguments.Get("name").value_or("");
  if (const auto text = arguments.Get("model")) {
    ASSIGN_OR_RETURN(client::ModelRef ref, ParseModelRef(*text, "--model"));
    // Asked first: a session that cannot go on is not opened at all.
    ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client, Connect(arguments));
    ASSIGN_OR_RETURN(const client::ModelInfo model, client->Get(ref));
    if (model.fingerprint != state->fingerprint) {
      return OtherOperator(path, state->fingerprint, absl::StrCat(*text, " is ", model.fingerprint));
    }
    spec.target = std::move(ref);
  }
  ASSIGN_OR_RETURN(const Sessions sessions, ConnectSessions(arguments));
  ASSIGN_OR_RETURN(const client::OpenedSession opened, sessions->Open(spec));
  if (opened.fingerprint != state->fingerprint) {  // the model was loaded anew in between
    sessions->Close(opened.key, false).IgnoreError();
    return OtherOperator(path, state->fingerprint, absl::StrCat("the model is ", opened.fingerprint));
  }
  if (arguments.Has("json")) {
    streams.out << ToJson(opened);
  } else {
    streams.out << opened.key << "\n";
    streams.err << "opened with the state after number " << state->number << " (" << state->position
                << " steps); numbers start again at 1\n";
  }
  return absl::OkStatus();
}

// --- fork, close

absl::Status RunFork(const Arguments& arguments, Streams& streams) {
  RETURN_IF_ERROR(ExpectArguments(arguments, 1, "KEY or NAME"));
  const std::vector<std::string> names = arguments.All("name");
  ASSIGN_OR_RETURN(const std::optional<int64_t> count, IntFlag(arguments, "count", 1, 1'000'000));
  const int64_t forks = count.value_or(std::max<int64_t>(1, static_cast<int64_t>(names.size())));
  if (!names.empty() && static_cast<int64_t>(names.size()) != forks) {
    return UsageError(
        absl::StrCat("--count=", forks, " with ", names.size(), " names: give one for each fork, or none"));
  }
  ASSIGN_OR_RETURN(const Sessions sessions, ConnectSessions(arguments));
  ASSIGN_OR_RETURN(const std::string key, FindKey(*sessions, arguments.positional()[0]));
  ASSIGN_OR_RETURN(const client::ForkedSessions forked, sessions->Fork(key, static_cast<int32_t>(forks), names));
  if (arguments.Has("json")) {
    streams.out << ToJson(forked);
    return absl::OkStatus();
  }
  streams.out << Printable(absl::StrJoin(forked.keys, "\n")) << "\n";
  streams.err << "they start after number " << forked.number << "\n";
  return absl::OkStatus();
}

absl::Status RunClose(const Arguments& arguments, Streams& streams) {
  if (arguments.positional().empty()) return ExpectArguments(arguments, 1, "KEY or NAME");
  ASSIGN_OR_RETURN(const Sessions sessions, ConnectSessions(arguments));
  absl::Status first;
  for (const std::string& word : arguments.positional()) {
    const absl::StatusOr<std::string> key = FindKey(*sessions, word);
    absl::Status status = key.status();
    if (key.ok()) status = sessions->Close(*key, false).status();
    if (status.ok()) {
      streams.out << "closed " << Printable(word) << "\n";
    } else if (arguments.positional().size() > 1) {
      streams.err << Printable(absl::StrCat(word, ": ", status.message())) << "\n";
    }
    first.Update(status);
  }
  return first;
}

constexpr std::array kSessionsListFlags = {kLimitFlag, kJsonFlag, kServerFlag, kTimeoutFlag, kMaxReplyFlag};
constexpr std::array kSessionsShowFlags = {kJsonFlag, kServerFlag, kTimeoutFlag, kMaxReplyFlag};
constexpr std::array kExportFlags = {kFileFlag, kServerFlag, kTimeoutFlag, kMaxReplyFlag};
constexpr std::array kImportFlags = {kModelFlag, kNameFlag, kJsonFlag, kServerFlag, kTimeoutFlag, kMaxReplyFlag};
constexpr std::array kForkFlags = {kCountFlag, kNamesFlag, kJsonFlag, kServerFlag, kTimeoutFlag};
constexpr std::array kCloseFlags = {kServerFlag, kTimeoutFlag};

constexpr Command kSessionCommands[] = {
    {.name = "sessions ls",
     .summary = "list the live sessions",
     .usage = "[FLAGS]",
     .text = "Lists your live sessions, oldest first: the last number applied, the steps run, and when each ends if it "
             "stays\n"
             "idle.\n\nExamples:\n  rnnctl sessions ls\n  rnnctl sessions ls --json --limit 100000",
     .flags = kSessionsListFlags,
     .run = RunSessionsList},
    {.name = "sessions show",
     .summary = "show one session",
     .usage = "(KEY | NAME) [FLAGS]",
     .text = "Shows one session, named by its key, its name, or the beginning of its key (6 letters at "
             "least).\n\nExamples:\n"
             "  rnnctl sessions show caller-7\n  rnnctl sessions show --json cnMBAAAA",
     .flags = kSessionsShowFlags,
     .run = RunSessionsShow},
    {.name = "sessions export",
     .summary = "write a session's state to a file",
     .usage = "(KEY | NAME) --out FILE [FLAGS]",
     .text = "Writes the state with its number, its steps and the operator's fingerprint. The session goes "
             "on.\n\nExamples:\n"
             "  rnnctl sessions export caller-7 -o caller-7.session",
     .flags = kExportFlags,
     .run = RunExport},
    {.name = "sessions import",
     .summary = "open a session with the state of a file",
     .usage = "(FILE | -) [--model NAME] [FLAGS]",
     .text =
         "Opens a session with the state that export wrote, here or elsewhere, and prints its key. The server must "
         "hold the\n"
         "same operator with the same weights, under whatever name: a state of another one is refused.\n\nExamples:\n"
         "  rnnctl sessions import caller-7.session --model vad --name caller-7 --server gpu-8:50051\n"
         "  rnnctl sessions export caller-7 -o - | rnnctl sessions import - --server gpu-8:50051",
     .flags = kImportFlags,
     .run = RunImport},
    {.name = "sessions fork",
     .summary = "make sessions that start from another one's state",
     .usage = "(KEY | NAME) [FLAGS]",
     .text =
         "Makes one or several sessions that start from the state as it is now, and prints their keys.\n\nExamples:\n"
         "  rnnctl sessions fork caller-7\n  rnnctl sessions fork caller-7 --name left --name right",
     .flags = kForkFlags,
     .run = RunFork},
    {.name = "sessions close",
     .summary = "end sessions",
     .usage = "(KEY | NAME) ... [FLAGS]",
     .text = "Ends sessions. Refused while an operation of the session is in flight.\n\nExamples:\n"
             "  rnnctl sessions close caller-7",
     .flags = kCloseFlags,
     .run = RunClose}};

}  // namespace

std::span<const Command> SessionCommands() { return kSessionCommands; }

}  // namespace rnnserve::rnnctl
