// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/command.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/nearest.h"
#include "base/view.h"
#include "client/cpp/client.h"
#include "client/cpp/status.h"
#include "client/rnnctl/show.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

constexpr std::string_view kEnvironment = R"(
Environment:
  RNNCTL_SERVER      stands for --server
  RNNCTL_TLS_CA      PEM file of the authorities to trust; switches TLS on
  RNNCTL_TLS_CERT    PEM files of the caller's own certificate and key, where the server asks for one
  RNNCTL_TLS_KEY
  RNNCTL_TOKEN_FILE  file with a bearer token, where the server asks for one
)";

constexpr std::string_view kExitCodes = R"(
Exit codes:
  0  all went well
  1  the server refused the call or failed
  2  a flag, a file or the request's JSON is wrong
  3  cannot connect to --server
  4  --timeout passed
  5  the results could not be written
)";

std::vector<Command> Commands() {
  std::vector<Command> commands;
  for (std::span<const Command> group :
       {InferCommands(), StreamCommands(), SessionCommands(), ModelCommands(), InspectCommands(), BenchCommands()}) {
    commands.insert(commands.end(), group.begin(), group.end());
  }
  return commands;
}

std::string Overview() {
  std::vector<std::vector<std::string>> rows;
  for (const Command& command : Commands()) {
    rows.push_back({absl::StrCat("  ", View(command.name)), std::string(command.summary)});
  }
  rows.push_back({"  version", "print rnnctl's version"});
  rows.push_back({"  help [COMMAND]", "print this, or how to use one command"});
  return absl::StrCat(
      "rnnctl runs recurrent operators on an rnnserve server, manages its models and sessions and measures "
      "it.\n\nUsage: rnnctl "
      "COMMAND "
      "[FLAGS]\n\n",
      "Commands:\n", FormatTable(rows),
      "\nExamples:\n  rnnctl infer request.json\n  rnnctl infer --model vad --tensor X=x.npy --outputs Y_h\n"
      "  rnnctl models ls --server gpu-7:50051\n\nEvery command tells more with --help.\n",
      View(kEnvironment), View(kExitCodes));
}

std::string Help(const Command& command) {
  std::vector<std::vector<std::string>> rows;
  for (const Flag& flag : command.flags) {
    rows.push_back({absl::StrCat("  --", View(flag.name),
                                 flag.short_name == 0 ? "" : absl::StrCat(", -", std::string(1, flag.short_name)),
                                 flag.value.empty() ? "" : "=", View(flag.value)),
                    absl::StrCat(View(flag.help), flag.repeated ? " (repeatable)" : "")});
  }
  rows.push_back({"  --help", "this text"});
  return absl::StrCat("Usage: rnnctl ", View(command.name), command.usage.empty() ? "" : " ", View(command.usage),
                      "\n\n", View(command.text), "\n\nFlags:\n", FormatTable(rows), View(kExitCodes));
}

// "models", "load", "vad" -> the command "models load"; removes its words.
std::optional<Command> TakeCommand(std::vector<std::string>& words) {
  const std::vector<Command> commands = Commands();
  for (size_t length : {size_t{2}, size_t{1}}) {
    if (words.size() < length) continue;
    const auto end = words.begin() + static_cast<std::ptrdiff_t>(length);
    const std::string name = absl::StrJoin(words.begin(), end, " ");
    for (const Command& command : commands) {
      if (command.name != name) continue;
      words.erase(words.begin(), end);
      return command;
    }
  }
  return std::nullopt;
}

// Commands that begin with `word`, e.g. those of "models".
std::string GroupOverview(const std::string& word) {
  std::vector<std::vector<std::string>> rows;
  for (const Command& command : Commands()) {
    if (command.name.starts_with(word + " ")) {
      rows.push_back({absl::StrCat("  rnnctl ", View(command.name)), std::string(command.summary)});
    }
  }
  return FormatTable(rows);
}

int UnknownCommand(const std::vector<std::string>& words, std::ostream& err) {
  const std::string group = GroupOverview(words[0]);
  if (!group.empty()) {
    err << "rnnctl " << words[0] << ": " << (words.size() > 1 ? "unknown command " + words[1] : "which one?") << "\n\n"
        << group;
    return kUsage;
  }
  const std::vector<Command> commands = Commands();
  std::vector<std::string_view> names = {"models", "sessions", "version", "help"};
  for (const Command& command : commands) names.push_back(command.name);
  const std::string_view nearest = Nearest(words[0], names);
  err << "rnnctl: unknown command " << words[0];
  if (!nearest.empty()) err << "; did you mean " << nearest << "?";
  err << "\nSee rnnctl help\n";
  return kUsage;
}

int PrintHelp(std::vector<std::string> words, Streams& streams) {
  if (words.empty()) {
    streams.out << Overview();
    return kOk;
  }
  if (const std::optional<Command> command = TakeCommand(words)) {
    streams.out << Help(*command);
    return kOk;
  }
  const std::string group = GroupOverview(words[0]);
  if (words.size() > 1 || group.empty()) return UnknownCommand(words, streams.err);
  streams.out << group;
  return kOk;
}

ExitCode CodeFor(const absl::Status& status) {
  if (status.ok()) return kOk;
  if (IsUsageError(status)) return kUsage;
  if (IsOutputError(status)) return kCannotWrite;
  if (ReasonOf(status) == client::kCannotConnect) return kCannotConnect;
  return status.code() == absl::StatusCode::kDeadlineExceeded ? kTimedOut : kRefused;
}

void PrintError(const Command& command, const absl::Status& status, ExitCode code, std::ostream& err) {
  const std::string message(status.message());
  if (code == kUsage) {
    err << "rnnctl " << command.name << ": " << Printable(message) << "\nSee rnnctl " << command.name << " --help\n";
    return;
  }
  if (code == kCannotWrite) {
    err << "error: " << Printable(message) << "\n";
    return;
  }
  if (code == kCannotConnect) {
    err << "error: " << Printable(message)
        << "\nIs rnnserve running there? --server=HOST:PORT or RNNCTL_SERVER say where; a server with TLS needs "
           "--tls_ca=FILE.\n";
    return;
  }
  err << "error: " << absl::StatusCodeToString(status.code()) << ": " << Printable(message) << "\n";
  if (const auto field = FieldOf(status)) err << "  field: " << Printable(*field) << "\n";
  if (const auto reason = ReasonOf(status)) err << "  reason: " << Printable(*reason) << "\n";
  if (const auto delay = client::RetryDelayOf(status)) err << "  try again in: " << delay->count() << " ms\n";
  if (code == kTimedOut) err << "  --timeout sets how long to wait\n";
}

}  // namespace

int Run(const std::vector<std::string>& words, Streams streams) {
  if (words.empty()) {
    streams.err << Overview();
    return kUsage;
  }
  std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "help" || words[0] == "--help" || words[0] == "-h") return PrintHelp(rest, streams);
  if (words[0] == "version" || words[0] == "--version") {
    streams.out << "rnnctl " << RNNSERVE_VERSION << "\n";
    return kOk;
  }
  rest = words;
  const std::optional<Command> command = TakeCommand(rest);
  if (!command) {
    const bool asks_help = words.size() == 2 && (words[1] == "--help" || words[1] == "-h");
    return asks_help ? PrintHelp({words[0]}, streams) : UnknownCommand(words, streams.err);
  }
  const absl::StatusOr<Arguments> arguments = Arguments::Parse(rest, command->flags);
  if (arguments.ok() && arguments->Has("help")) {
    streams.out << Help(*command);
    return kOk;
  }
  absl::Status status = arguments.ok() ? command->run(*arguments, streams) : arguments.status();
  if (status.ok() && !streams.out.flush()) {
    streams.err << "error: cannot write to standard output\n";
    return kCannotWrite;
  }
  const ExitCode code = CodeFor(status);
  if (code != kOk) PrintError(*command, status, code, streams.err);
  return code;
}

}  // namespace rnnserve::rnnctl
