// SPDX-License-Identifier: Apache-2.0
// rnnctl models ls, show, load, save, unload; rnnctl health.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/lookup.h"
#include "client/rnnctl/call.h"
#include "client/rnnctl/command.h"
#include "client/rnnctl/json.h"
#include "client/rnnctl/show.h"
#include "client/rnnctl/tensor_files.h"
#include "client/rnnctl/transfer.h"

namespace rnnserve::rnnctl {
namespace {

constexpr Flag kRepositoryFlag = {
    .name = "repository", .value = "", .help = "load NAME/VERSION/model.onnx of the server's folder --models"};
constexpr Flag kAllTenantsFlag = {
    .name = "all-tenants", .value = "", .help = "with an operator's token: the models of all tenants"};
constexpr Flag kTenantFlag = {
    .name = "tenant", .value = "NAME", .help = "with an operator's token: the model of this tenant"};

// The one argument of show, load and unload.
absl::StatusOr<client::ModelRef> ModelFrom(const Arguments& arguments) {
  absl::Status counted = ExpectArguments(arguments, 1, "NAME[:VERSION]");
  if (!counted.ok()) return counted;
  return ParseModelRef(arguments.positional()[0], "model");
}

absl::Status RunList(const Arguments& arguments, Streams& streams) {
  absl::Status counted = ExpectArguments(arguments, 0, "");
  if (!counted.ok()) return counted;
  const absl::StatusOr<std::unique_ptr<client::Client>> client = Connect(arguments);
  if (!client.ok()) return client.status();
  const absl::StatusOr<client::ModelList> list = (*client)->List(arguments.Has("all-tenants"));
  if (!list.ok()) return list.status();
  streams.out << (arguments.Has("json") ? ToJson(*list) : ShowModels(*list));
  return absl::OkStatus();
}

void Print(const client::ModelInfo& model, const Arguments& arguments, Streams& streams) {
  streams.out << (arguments.Has("json") ? ToJson(model) : ShowModel(model));
}

absl::Status RunShow(const Arguments& arguments, Streams& streams) {
  const absl::StatusOr<client::ModelRef> ref = ModelFrom(arguments);
  if (!ref.ok()) return ref.status();
  const absl::StatusOr<std::unique_ptr<client::Client>> client = Connect(arguments);
  if (!client.ok()) return client.status();
  const absl::StatusOr<client::ModelInfo> model = (*client)->Get(*ref);
  if (!model.ok()) return model.status();
  Print(*model, arguments, streams);
  return absl::OkStatus();
}

absl::StatusOr<client::LoadRequest> LoadRequestFrom(const Arguments& arguments) {
  const bool has_file = arguments.positional().size() >= 2;
  if (absl::Status counted = ExpectArguments(arguments, has_file ? 2 : 1, "NAME[:VERSION]"); !counted.ok()) {
    return counted;
  }
  const absl::StatusOr<client::ModelRef> ref = ParseModelRef(arguments.positional()[0], "model");
  if (!ref.ok()) return ref.status();
  client::LoadRequest request{.name = ref->name, .version = ref->version};
  if (has_file + arguments.Has("repository") + arguments.Has("op") != 1) {
    return UsageError(
        "where the model comes from: an ONNX file, or --op with a --tensor for each weight, or --repository");
  }
  if (arguments.Has("op")) {
    absl::StatusOr<OperatorDef> op = OperatorFrom(arguments);
    if (!op.ok()) return op.status();
    absl::StatusOr<std::vector<client::Tensor>> weights = ReadTensors(arguments.All("tensor"), arguments.Get("cast"));
    if (!weights.ok()) return weights.status();
    request.source = client::InlineModel{*std::move(op), *std::move(weights)};
  } else {
    for (const Flag& flag : {kOpsetFlag, kOpVersionFlag, kDomainFlag, kAttrFlag, kTensorFlag, kCastFlag}) {
      if (arguments.Has(flag.name)) {
        return UsageError(absl::StrCat("--", std::string(flag.name), " belongs to --op; the file has its own"));
      }
    }
  }
  if (has_file) {
    absl::StatusOr<std::string> bytes = ReadFile(arguments.positional()[1]);
    if (!bytes.ok()) return bytes.status();
    request.source = client::OnnxFile{*std::move(bytes)};
  }
  const absl::StatusOr<client::Options> options = OptionsFrom(arguments);
  if (!options.ok()) return options.status();
  request.options = *options;
  request.engine = arguments.Get("engine").value_or("");
  return request;
}

// A file may take any time unless --timeout bounds it: the server ends one that stands still.
absl::StatusOr<std::unique_ptr<client::Client>> ConnectForFile(const Arguments& arguments) {
  absl::StatusOr<client::ClientOptions> options = ClientOptionsFrom(arguments);
  if (!options.ok()) return options.status();
  if (!arguments.Has("timeout")) options->timeout = std::chrono::milliseconds(0);
  return ConnectTo(ServerAddress(arguments), *options);
}

absl::Status RunLoad(const Arguments& arguments, Streams& streams) {
  const absl::StatusOr<client::LoadRequest> request = LoadRequestFrom(arguments);
  if (!request.ok()) return request.status();
  const bool has_file = std::holds_alternative<client::OnnxFile>(request->source);
  const absl::StatusOr<std::unique_ptr<client::Client>> client =
      has_file ? ConnectForFile(arguments) : Connect(arguments);
  if (!client.ok()) return client.status();
  const absl::StatusOr<client::ModelInfo> model = [&] {
    Transfer transfer("sent", streams.err);
    return (*client)->Load(*request, [&](int64_t bytes, int64_t of) { transfer.Show(bytes, of); });
  }();
  if (!model.ok()) return model.status();
  Print(*model, arguments, streams);
  return absl::OkStatus();
}

// The file that `path` leads to: new, or one that may be replaced. A device is no such file.
absl::StatusOr<std::filesystem::path> Replaceable(const std::string& path) {
  std::error_code failed;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(target, failed)) target = std::filesystem::weakly_canonical(target, failed);
  if (std::filesystem::exists(target, failed) && !std::filesystem::is_regular_file(target, failed)) {
    return OutputError(absl::StrCat(path, ": is there and no regular file; name another one"));
  }
  return target;
}

// An empty file of its own beside `target`, with the permissions that `target` has or a new file gets.
absl::StatusOr<std::string> NewFileBeside(const std::filesystem::path& target) {
  std::string name = target.string() + ".XXXXXX";
  const int made = mkstemp(name.data());
  if (made < 0) return OutputError(absl::StrCat(target.string(), ": cannot write beside it: ", std::strerror(errno)));
  const mode_t mask = umask(0);
  umask(mask);
  struct stat old;
  const mode_t mode = stat(target.c_str(), &old) == 0 ? old.st_mode & 0777 : 0666 & ~mask;
  const bool is_like_it = fchmod(made, mode) == 0;
  close(made);
  if (is_like_it) return name;
  std::remove(name.c_str());
  return OutputError(absl::StrCat(target.string(), ": cannot write beside it: ", std::strerror(errno)));
}

// Writes beside `path` and renames what is whole: nothing is left of a file that did not come whole.
absl::StatusOr<client::ModelInfo> SaveTo(const std::string& path, const client::ModelRef& ref, client::Client& client,
                                         Streams& streams) {
  ASSIGN_OR_RETURN(const std::filesystem::path target, Replaceable(path));
  ASSIGN_OR_RETURN(const std::string unfinished, NewFileBeside(target));
  std::ofstream file(unfinished, std::ios::binary);
  const auto write = [&](std::string_view piece) {
    file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    return file ? absl::OkStatus() : OutputError(absl::StrCat(unfinished, ": cannot write it"));
  };
  Transfer transfer("got", streams.err);
  absl::StatusOr<client::ModelInfo> model =
      client.Download(ref, write, [&](int64_t bytes, int64_t of) { transfer.Show(bytes, of); });
  file.close();
  if (model.ok() && file && std::rename(unfinished.c_str(), target.c_str()) == 0) return model;
  std::remove(unfinished.c_str());
  if (!model.ok()) return model;
  return OutputError(absl::StrCat(path, ": cannot write it"));
}

absl::Status RunSave(const Arguments& arguments, Streams& streams) {
  absl::Status counted = ExpectArguments(arguments, 2, "NAME[:VERSION] or FILE");
  if (!counted.ok()) return counted;
  const absl::StatusOr<client::ModelRef> ref = ParseModelRef(arguments.positional()[0], "model");
  if (!ref.ok()) return ref.status();
  const absl::StatusOr<std::unique_ptr<client::Client>> client = ConnectForFile(arguments);
  if (!client.ok()) return client.status();
  const std::string& path = arguments.positional()[1];
  const absl::StatusOr<client::ModelInfo> model = SaveTo(path, *ref, **client, streams);
  if (!model.ok()) return model.status();
  streams.out << "saved version " << model->version << " of " << model->name << " to " << path << "\n";
  return absl::OkStatus();
}

absl::Status RunUnload(const Arguments& arguments, Streams& streams) {
  const absl::StatusOr<client::ModelRef> ref = ModelFrom(arguments);
  if (!ref.ok()) return ref.status();
  const absl::StatusOr<std::unique_ptr<client::Client>> client = Connect(arguments);
  if (!client.ok()) return client.status();
  absl::Status status = (*client)->Unload(*ref, arguments.Get("tenant").value_or(""));
  if (status.ok()) streams.out << "unloaded " << arguments.positional()[0] << "\n";
  return status;
}

absl::Status HealthOf(client::Client& client, const std::string& service) {
  const absl::StatusOr<client::HealthStatus> health = client.Health(service);
  if (!health.ok()) return health.status();
  if (*health == client::HealthStatus::kServing) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server answers, but ", service.empty() ? "it" : service, " is not serving"));
}

absl::Status RunHealth(const Arguments& arguments, Streams& streams) {
  if (arguments.positional().size() > 1) return ExpectArguments(arguments, 1, "");
  const absl::StatusOr<client::ClientOptions> options = ClientOptionsFrom(arguments);
  if (!options.ok()) return options.status();
  const std::vector<std::string> addresses = client::SplitAddresses({ServerAddress(arguments)});
  const std::string service = arguments.positional().empty() ? "" : arguments.positional()[0];
  absl::Status worst;
  for (const std::string& address : addresses) {
    const absl::StatusOr<std::unique_ptr<client::Client>> client = ConnectTo(address, *options);
    if (!client.ok()) return client.status();
    const absl::Status health = HealthOf(**client, service);
    if (addresses.size() > 1) streams.out << address << "  ";
    if (health.ok()) {
      streams.out << "serving\n";
    } else if (addresses.size() > 1) {
      streams.out << health.message() << "\n";
    }
    if (worst.ok()) worst = health;
  }
  return worst;
}

constexpr Flag kFileTimeoutFlag = {
    .name = "timeout",
    .value = "TIME",
    .help = "give up after this long: 500ms, 10s, 2m; 0 never; default never for a file, else 60s"};
constexpr std::array kCallFlags = {kServerFlag, kTimeoutFlag};
constexpr std::array kSaveFlags = {kServerFlag, kFileTimeoutFlag};
constexpr std::array kUnloadFlags = {kTenantFlag, kServerFlag, kTimeoutFlag};
constexpr std::array kListFlags = {kAllTenantsFlag, kJsonFlag, kServerFlag, kTimeoutFlag, kMaxReplyFlag};
constexpr std::array kShowFlags = {kJsonFlag, kServerFlag, kTimeoutFlag, kMaxReplyFlag};
constexpr std::array kLoadFlags = {
    kRepositoryFlag, kOpFlag,         kOpsetFlag,  kOpVersionFlag, kDomainFlag,      kAttrFlag,
    kTensorFlag,     kCastFlag,       kEngineFlag, kClipCellFlag,  kEmptyRowFlag,    kDeterministicFlag,
    kReducedFlag,    kWeightTypeFlag, kJsonFlag,   kServerFlag,    kFileTimeoutFlag, kMaxReplyFlag};

constexpr std::string_view kListText =
    R"(Lists the models that the server holds for the caller, with the bytes of their weights as loaded and as engines have
packed them so far, and the files of the server's folder --models that it could not load, with the reason.

Examples:
  rnnctl models ls
  rnnctl models ls --json --server gpu-7:50051)";

constexpr std::string_view kShowText = R"(Shows one model; without a version the highest one that is loaded.

Examples:
  rnnctl models show vad
  rnnctl models show vad:2 --json)";

constexpr std::string_view kLoadText =
    R"(Loads a model under a name. Without a version it is one more than the highest that is loaded, 1 for a new name;
calls without a version go to it from then on. FILE is an ONNX file with all weights inside (torch: export with
external_data=False); with --op the weights are sent from .npy files. What is sent lives as long as the
server's process. The file goes in pieces, so no limit of a message bounds it; a terminal shows how far it is, and without
--timeout it may take any time. The server runs one step of the model before the name means it, and refuses one that
cannot run. With --repository the server reads its own file NAME/VERSION/model.onnx below its folder --models
(without a version, 1); nothing is sent from here. Loading the same content twice changes nothing; other content under
a version that is named and loaded is refused. --engine and the options become the model's defaults.

Where the server has tokens: a model that is sent is the tenant's own, one that an operator sends or that lies in the
folder is everybody's.

Examples:
  rnnctl models load vad model.onnx
  rnnctl models load vad:2 --op GRU --opset 14 --tensor W=w.npy --tensor R=r.npy --tensor B=b.npy \
      --attr linear_before_reset=1
  rnnctl models load vad:3 --repository)";

constexpr std::string_view kSaveText =
    R"(Writes the ONNX file of a model, without a version of the highest: byte for byte as it was uploaded, or as it lies in
the server's folder --models. A model that came as operators (--op, or layers) has no file, and one of the folder that
keeps its data beside model.onnx does not fit into one. FILE appears when it is whole; a terminal shows how far it is,
and without --timeout it may take any time.
Where the server has tokens: a token with the permission models saves the tenant's own models, an operator's also
everybody's.

Examples:
  rnnctl models save vad vad.onnx
  rnnctl models save vad:2 vad-2.onnx)";

constexpr std::string_view kUnloadText =
    R"(Ends new use of a model, without a version of all its versions. Calls that are running and open sessions keep what
they hold. Where the server has tokens: of the tenant's own model; with an operator's token also of everybody's.

Examples:
  rnnctl models unload vad:2)";

constexpr std::string_view kHealthText =
    R"(Asks grpc.health.v1 for the server, for a model (one of everybody's) by its name, or for an engine of a plugin as
engine/NAME. Prints "serving" and ends with 0, or ends with 1. Of several servers it prints a line each, and ends with
0 if all are serving.

Examples:
  rnnctl health
  rnnctl health vad
  rnnctl health --server gpu-7:50051 --timeout 2s)";

constexpr Command kModelCommands[] = {
    {.name = "models ls",
     .summary = "list the models, and the repository files that could not be loaded",
     .usage = "[FLAGS]",
     .text = kListText,
     .flags = kListFlags,
     .run = RunList},
    {.name = "models show",
     .summary = "show one model: operator, tensors, options",
     .usage = "NAME[:VERSION] [FLAGS]",
     .text = kShowText,
     .flags = kShowFlags,
     .run = RunShow},
    {.name = "models load",
     .summary = "load a model: an ONNX file, .npy weights, or from the server's repository",
     .usage = "NAME[:VERSION] (FILE | --op TYPE --tensor NAME=FILE ... | --repository) [FLAGS]",
     .text = kLoadText,
     .flags = kLoadFlags,
     .run = RunLoad},
    {.name = "models save",
     .summary = "write the ONNX file of a model",
     .usage = "NAME[:VERSION] FILE [FLAGS]",
     .text = kSaveText,
     .flags = kSaveFlags,
     .run = RunSave},
    {.name = "models unload",
     .summary = "end new use of a model",
     .usage = "NAME[:VERSION] [FLAGS]",
     .text = kUnloadText,
     .flags = kUnloadFlags,
     .run = RunUnload},
    {.name = "health",
     .summary = "ask whether the server, or one model of it, is serving",
     .usage = "[NAME] [FLAGS]",
     .text = kHealthText,
     .flags = kCallFlags,
     .run = RunHealth}};

}  // namespace

std::span<const Command> ModelCommands() { return kModelCommands; }

}  // namespace rnnserve::rnnctl
