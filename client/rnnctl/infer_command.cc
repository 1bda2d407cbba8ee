// SPDX-License-Identifier: Apache-2.0
// rnnctl infer: a request from a JSON file, or from flags and .npy files.
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/rnnctl/call.h"
#include "client/rnnctl/command.h"
#include "client/rnnctl/json.h"
#include "client/rnnctl/show.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

constexpr Flag kPriorityFlag = {.name = "priority", .value = "N", .help = "-100 to 100, larger first; default 0"};
constexpr Flag kRequestIdFlag = {.name = "request-id", .value = "TEXT", .help = "echoed in the reply; up to 128 bytes"};
constexpr Flag kOutFlag = {
    .name = "out", .value = "DIR", .help = "write each output to DIR/NAME.npy, with _ for / and the like"};

// Flags that build the request, and so say twice what a JSON file says.
constexpr std::array kRequestFlags = {
    kOpFlag,          kOpsetFlag,    kOpVersionFlag, kDomainFlag,        kAttrFlag,    kModelFlag,
    kFingerprintFlag, kTensorFlag,   kCastFlag,      kOutputsFlag,       kEngineFlag,  kPriorityFlag,
    kRequestIdFlag,   kClipCellFlag, kEmptyRowFlag,  kDeterministicFlag, kReducedFlag, kWeightTypeFlag};
constexpr std::array kFlags = {
    kOpFlag,          kOpsetFlag,    kOpVersionFlag, kDomainFlag,        kAttrFlag,    kModelFlag,
    kFingerprintFlag, kTensorFlag,   kCastFlag,      kOutputsFlag,       kEngineFlag,  kPriorityFlag,
    kRequestIdFlag,   kClipCellFlag, kEmptyRowFlag,  kDeterministicFlag, kReducedFlag, kWeightTypeFlag,
    kOutFlag,         kJsonFlag,     kValuesFlag,    kServerFlag,        kTimeoutFlag, kMaxReplyFlag};

constexpr std::string_view kText =
    R"(Runs one operator over whole sequences. The request is a file with the JSON form of rnnserve.v1.InferRequest
(- reads it from standard input), or is built from flags: what to run (--op, --model or --fingerprint) and a .npy
file for each tensor. With --op the weights are tensors too. Prints a table of the outputs.

sequence_lens saved as int64, numpy's own integer, is sent as the int32 that ONNX asks for.

Examples:
  rnnctl infer --server 127.0.0.1:50051 request.json
  rnnctl infer --op LSTM --opset 14 --tensor X=x.npy --tensor W=w.npy --tensor R=r.npy \
      --attr direction=bidirectional --attr clip=3.5
  rnnctl infer --op RNN --op-version 7 --tensor X=x.npy --tensor W=w.npy --tensor R=r.npy --attr activations=Relu
  rnnctl infer --model vad:2 --tensor X=x.npy --tensor sequence_lens=lens.npy --outputs Y,Y_h --out results
  echo '{"operator": {"op_type": "RNN", "opset": 14}, "inputs": [
      {"name": "X", "data_type": "FLOAT", "shape": [1, 1, 1], "float_data": [0.5]},
      {"name": "W", "data_type": "FLOAT", "shape": [1, 1, 1], "float_data": [1]},
      {"name": "R", "data_type": "FLOAT", "shape": [1, 1, 1], "float_data": [0]}]}' | rnnctl infer --json -)";

absl::StatusOr<client::InferOptions> InferOptionsFrom(const Arguments& arguments) {
  client::InferOptions options;
  if (const auto outputs = arguments.Get("outputs")) options.outputs = absl::StrSplit(*outputs, ',', absl::SkipEmpty());
  ASSIGN_OR_RETURN(options.options, OptionsFrom(arguments));
  options.engine = arguments.Get("engine").value_or("");
  ASSIGN_OR_RETURN(const std::optional<int64_t> priority, IntFlag(arguments, "priority", -100, 100));
  options.priority = static_cast<int32_t>(priority.value_or(0));
  options.request_id = arguments.Get("request-id").value_or("");
  return options;
}

absl::StatusOr<client::InferResult> InferFromJson(const Arguments& arguments, client::Client& client,
                                                  Streams& streams) {
  for (const Flag& flag : kRequestFlags) {
    if (arguments.Has(flag.name)) {
      return UsageError(
          absl::StrCat("--", std::string(flag.name), " cannot be combined with a request file; say it there"));
    }
  }
  const std::string& path = arguments.positional()[0];
  ASSIGN_OR_RETURN(const std::string json, path == "-" ? ReadAll(streams.in, "standard input") : ReadFile(path));
  if (json.starts_with("\x93NUMPY")) {
    return UsageError(absl::StrCat(path, " is a .npy file, not a request; give it as --tensor NAME=", path));
  }
  const absl::StatusOr<std::string> request = ParseInferJson(json);
  if (!request.ok()) return UsageError(absl::StrCat(path, ": ", request.status().message()));
  return client.InferSerialized(*request);
}

absl::StatusOr<client::InferResult> InferFromFlags(const Arguments& arguments, client::Client& client) {
  ASSIGN_OR_RETURN(const client::Target target, TargetFrom(arguments));
  ASSIGN_OR_RETURN(const client::InferOptions options, InferOptionsFrom(arguments));
  ASSIGN_OR_RETURN(const std::vector<client::Tensor> inputs,
                   ReadTensors(arguments.All("tensor"), arguments.Get("cast")));
  return client.Infer(target, inputs, options);
}

absl::Status RunInfer(const Arguments& arguments, Streams& streams) {
  if (arguments.positional().size() > 1) {
    return UsageError(absl::StrCat("one request file is taken; what is ", arguments.positional()[1],
                                   "? (tensors are given as --tensor NAME=FILE)"));
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> values,
                   IntFlag(arguments, "values", 0, std::numeric_limits<int64_t>::max()));
  ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client, Connect(arguments));
  ASSIGN_OR_RETURN(const client::InferResult result, arguments.positional().empty()
                                                         ? InferFromFlags(arguments, *client)
                                                         : InferFromJson(arguments, *client, streams));
  std::vector<std::string> files;
  if (const auto folder = arguments.Get("out")) {
    ASSIGN_OR_RETURN(files, WriteTensors(result.outputs, *folder));
  }
  streams.out << (arguments.Has("json") ? ToJson(result)
                                        : ShowResult(result, files, static_cast<size_t>(values.value_or(4))));
  return absl::OkStatus();
}

constexpr Command kInferCommands[] = {{.name = "infer",
                                       .summary = "run an operator or a model over sequences",
                                       .usage = "[REQUEST.json | -] [FLAGS]",
                                       .text = kText,
                                       .flags = kFlags,
                                       .run = RunInfer}};

}  // namespace

std::span<const Command> InferCommands() { return kInferCommands; }

}  // namespace rnnserve::rnnctl
