// SPDX-License-Identifier: Apache-2.0
// What the commands share: the flags that say where the server is and what the operator is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/cpp/session_types.h"
#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {

inline constexpr Flag kServerFlag = {.name = "server",
                                     .value = "HOST:PORT[,...]",
                                     .help =
                                         "where rnnserve listens, several by comma; default $RNNCTL_SERVER, else "
                                         "127.0.0.1:50051"};
inline constexpr Flag kTimeoutFlag = {
    .name = "timeout", .value = "TIME", .help = "give up after this long: 500ms, 10s, 2m; 0 never; default 60s"};
inline constexpr Flag kMaxReplyFlag = {
    .name = "max-reply-mib", .value = "N", .help = "largest reply to take, in MiB; default 64"};
inline constexpr Flag kJsonFlag = {.name = "json", .value = "", .help = "print the reply in protobuf's JSON form"};
inline constexpr Flag kValuesFlag = {
    .name = "values", .value = "N", .help = "elements of each output to print; default 4"};
inline constexpr Flag kOpFlag = {
    .name = "op", .value = "TYPE", .help = "an operator: LSTM, GRU, RNN; LSTMSequence, GRUSequence, RNNSequence"};
inline constexpr Flag kOpsetFlag = {.name = "opset", .value = "N", .help = "the opset whose version of --op is meant"};
inline constexpr Flag kOpVersionFlag = {
    .name = "op-version", .value = "N", .help = "the operator's own version, instead of --opset: 14 for LSTM-14"};
inline constexpr Flag kDomainFlag = {.name = "domain", .value = "NAME", .help = "ai.onnx (default) or openvino"};
inline constexpr Flag kAttrFlag = {
    .name = "attr",
    .value = "NAME=VALUE",
    .help = "an attribute of --op: clip=3.5, direction=reverse, activations=Tanh,Relu,Tanh",
    .repeated = true};
inline constexpr Flag kModelFlag = {
    .name = "model", .value = "NAME[:VERSION]", .help = "a model that the server holds"};
inline constexpr Flag kFingerprintFlag = {
    .name = "fingerprint", .value = "HEX", .help = "an operator with its weights, as an earlier reply named it"};
inline constexpr Flag kOutputsFlag = {
    .name = "outputs", .value = "NAMES", .help = "outputs wanted, by comma: Y,Y_h; default: the operator's own"};
inline constexpr Flag kTensorFlag = {
    .name = "tensor", .value = "NAME=FILE", .help = "a tensor from a .npy file: X=x.npy", .repeated = true};
inline constexpr Flag kCastFlag = {
    .name = "cast", .value = "TYPE", .help = "make all floating tensors float16, bfloat16, float32 or float64"};
inline constexpr Flag kEngineFlag = {
    .name = "engine", .value = "NAME", .help = "an engine by name; default: the server chooses"};
inline constexpr Flag kClipCellFlag = {.name = "clip-cell-input",
                                       .value = "BOOL",
                                       .help = "LSTM with clip: clip C on its way into activation h (true or false)"};
inline constexpr Flag kEmptyRowFlag = {
    .name = "empty-row-state", .value = "KIND", .help = "final state of rows of length 0: zeros or initial"};
inline constexpr Flag kDurabilityFlag = {
    .name = "durability",
    .value = "HOW",
    .help = "local (default); interval or sync, of servers with a common store: any of them goes on with the session"};
inline constexpr Flag kDeterministicFlag = {
    .name = "deterministic", .value = "", .help = "the same bits every time on the same machine and engine"};
inline constexpr Flag kReducedFlag = {
    .name = "allow-reduced-precision", .value = "", .help = "let engines round to 16 bits inside, or to --weight-type"};
inline constexpr Flag kWeightTypeFlag = {
    .name = "weight-type",
    .value = "TYPE",
    .help = "what weights are kept as, with --allow-reduced-precision: float16, bfloat16, int8, or as_given"};

// By --server.
std::string ServerAddress(const Arguments& arguments);
// By --timeout, --max-reply-mib; TLS and token by RNNCTL_TLS_CA, RNNCTL_TLS_CERT, RNNCTL_TLS_KEY, RNNCTL_TOKEN_FILE.
absl::StatusOr<client::ClientOptions> ClientOptionsFrom(const Arguments& arguments);
absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const std::string& address,
                                                          const client::ClientOptions& options);
// By all three.
absl::StatusOr<std::unique_ptr<client::Client>> Connect(const Arguments& arguments);

// By --op with its flags, --model or --fingerprint: one of them.
absl::StatusOr<client::Target> TargetFrom(const Arguments& arguments);

// Exactly `count` positional arguments; `what` is the name of a missing one.
absl::Status ExpectArguments(const Arguments& arguments, size_t count, const std::string& what);

// By --op, --opset, --op-version, --domain, --attr.
absl::StatusOr<OperatorDef> OperatorFrom(const Arguments& arguments);

// By --clip-cell-input, --empty-row-state, --deterministic, --allow-reduced-precision, --weight-type.
absl::StatusOr<client::Options> OptionsFrom(const Arguments& arguments);

// By --durability; kUnspecified without it.
absl::StatusOr<client::Durability> DurabilityFrom(const Arguments& arguments);

// "vad" or "vad:3"; `what` is named in errors.
absl::StatusOr<client::ModelRef> ParseModelRef(std::string_view text, std::string_view what);

// A whole number flag within bounds; absent if not given.
absl::StatusOr<std::optional<int64_t>> IntFlag(const Arguments& arguments, std::string_view name, int64_t min,
                                               int64_t max);

}  // namespace rnnserve::rnnctl
