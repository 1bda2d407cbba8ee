// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/call.h"

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "client/rnnctl/attributes.h"

namespace rnnserve::rnnctl {
namespace {

constexpr int64_t kMaxVersion = std::numeric_limits<int64_t>::max();

absl::StatusOr<std::chrono::milliseconds> TimeoutFrom(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.Get("timeout");
  if (!text) return client::ClientOptions().timeout;
  absl::Duration timeout;
  if (!absl::ParseDuration(*text, &timeout) || timeout < absl::ZeroDuration() || timeout > absl::Hours(24 * 365)) {
    return UsageError(absl::StrCat("--timeout=", *text, ": expected a time with its unit, such as 500ms, 10s or 2m"));
  }
  if (timeout > absl::ZeroDuration() && timeout < absl::Milliseconds(1)) timeout = absl::Milliseconds(1);
  return absl::ToChronoMilliseconds(timeout);
}

// The content of the file that an environment variable names; "" where it is not set.
absl::StatusOr<std::string> FileOf(const char* variable) {
  const char* const path = std::getenv(variable);
  if (path == nullptr || *path == '\0') return std::string();
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return UsageError(absl::StrCat(variable, "=", path, ": cannot read this file, or it is empty"));
  }
  return text.str();
}

// Not by flags: every user of the machine can see those of a running program.
absl::StatusOr<client::Credentials> CredentialsFromEnvironment() {
  client::Credentials credentials;
  const std::pair<const char*, std::string*> files[] = {{"RNNCTL_TOKEN_FILE", &credentials.token},
                                                        {"RNNCTL_TLS_CA", &credentials.root_certificates},
                                                        {"RNNCTL_TLS_CERT", &credentials.certificate},
                                                        {"RNNCTL_TLS_KEY", &credentials.private_key}};
  for (const auto& [variable, content] : files) {
    ASSIGN_OR_RETURN(*content, FileOf(variable));
  }
  absl::StripAsciiWhitespace(&credentials.token);
  credentials.tls = !credentials.root_certificates.empty();
  if (!credentials.certificate.empty() && !credentials.tls) {
    return UsageError("RNNCTL_TLS_CERT is set without RNNCTL_TLS_CA, which says whom to trust and switches TLS on");
  }
  return credentials;
}

absl::StatusOr<std::optional<bool>> BoolFlag(const Arguments& arguments, std::string_view name) {
  const std::optional<std::string> text = arguments.Get(name);
  if (!text) return std::optional<bool>();
  if (*text == "true") return std::optional<bool>(true);
  if (*text == "false") return std::optional<bool>(false);
  return UsageError(absl::StrCat("--", View(name), "=", *text, ": expected true or false"));
}

}  // namespace

std::string ServerAddress(const Arguments& arguments) {
  if (const auto server = arguments.Get("server")) return *server;
  const char* environment = std::getenv("RNNCTL_SERVER");
  return environment != nullptr && *environment != '\0' ? environment : "127.0.0.1:50051";
}

absl::StatusOr<std::optional<int64_t>> IntFlag(const Arguments& arguments, std::string_view name, int64_t min,
                                               int64_t max) {
  const std::optional<std::string> text = arguments.Get(name);
  if (!text) return std::optional<int64_t>();
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < min || value > max) {
    const std::string bound =
        max == kMaxVersion ? absl::StrCat("of at least ", min) : absl::StrCat("from ", min, " to ", max);
    return UsageError(absl::StrCat("--", View(name), "=", *text, ": expected a whole number ", bound));
  }
  return std::optional<int64_t>(value);
}

absl::StatusOr<client::ClientOptions> ClientOptionsFrom(const Arguments& arguments) {
  client::ClientOptions options;
  ASSIGN_OR_RETURN(options.timeout, TimeoutFrom(arguments));
  options.patience = std::chrono::milliseconds(0);  // at a terminal the error comes at once
  ASSIGN_OR_RETURN(const std::optional<int64_t> mib, IntFlag(arguments, "max-reply-mib", 1, 2047));
  if (mib) options.max_receive_bytes = static_cast<int>(*mib << 20);
  ASSIGN_OR_RETURN(options.credentials, CredentialsFromEnvironment());
  return options;
}

absl::StatusOr<std::unique_ptr<client::Client>> ConnectTo(const std::string& address,
                                                          const client::ClientOptions& options) {
  absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(address, options);
  if (!client.ok()) return UsageError(absl::StrCat("--server: ", client.status().message()));
  return client;
}

absl::StatusOr<std::unique_ptr<client::Client>> Connect(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const client::ClientOptions options, ClientOptionsFrom(arguments));
  return ConnectTo(ServerAddress(arguments), options);
}

absl::StatusOr<OperatorDef> OperatorFrom(const Arguments& arguments) {
  OperatorDef op;
  op.op_type = arguments.Get("op").value_or("");
  op.domain = arguments.Get("domain").value_or("");
  if (op.op_type.empty())
    return UsageError("--op is missing: --op=LSTM, GRU, RNN, LSTMSequence, GRUSequence or RNNSequence");
  ASSIGN_OR_RETURN(const std::optional<int64_t> opset, IntFlag(arguments, "opset", 1, kMaxVersion));
  ASSIGN_OR_RETURN(const std::optional<int64_t> version, IntFlag(arguments, "op-version", 1, kMaxVersion));
  if (opset.has_value() == version.has_value()) {
    return UsageError(absl::StrCat("--op=", op.op_type, " needs ", opset ? "only one of" : "one of",
                                   " --opset=N (the model's opset) and --op-version=N (the operator's own version)"));
  }
  op.opset = opset;
  op.version = version;
  ASSIGN_OR_RETURN(op.attributes, ParseAttributes(arguments.All("attr")));
  return op;
}

absl::StatusOr<client::Durability> DurabilityFrom(const Arguments& arguments) {
  const std::optional<std::string> how = arguments.Get("durability");
  if (!how) return client::Durability::kUnspecified;
  if (*how == "local") return client::Durability::kLocal;
  if (*how == "interval") return client::Durability::kInterval;
  if (*how == "sync") return client::Durability::kSync;
  return UsageError(absl::StrCat("--durability=", *how, ": expected local, interval or sync"));
}

absl::StatusOr<client::Options> OptionsFrom(const Arguments& arguments) {
  client::Options options;
  ASSIGN_OR_RETURN(options.clip_cell_input, BoolFlag(arguments, "clip-cell-input"));
  if (const auto kind = arguments.Get("empty-row-state")) {
    if (*kind != "zeros" && *kind != "initial") {
      return UsageError(absl::StrCat("--empty-row-state=", *kind, ": expected zeros or initial"));
    }
    options.empty_row_state = *kind == "initial" ? client::EmptyRowState::kInitial : client::EmptyRowState::kZeros;
  }
  if (arguments.Has("deterministic")) options.deterministic = true;
  if (arguments.Has("allow-reduced-precision")) options.allow_reduced_precision = true;
  if (const auto name = arguments.Get("weight-type")) {
    for (const WeightType type : kNarrowWeights) {
      if (absl::EqualsIgnoreCase(*name, View(WeightTypeName(type)))) options.weight_type = type;
    }
    if (absl::EqualsIgnoreCase(*name, "as_given")) options.weight_type = WeightType::kAsGiven;
    if (!options.weight_type) {
      return UsageError(absl::StrCat("--weight-type=", *name, ": expected as_given, float16, bfloat16 or int8"));
    }
  }
  return options;
}

absl::StatusOr<client::ModelRef> ParseModelRef(std::string_view text, std::string_view what) {
  client::ModelRef model;
  const size_t colon = text.find(':');
  model.name = std::string(text.substr(0, colon));
  int64_t version = 0;
  const bool versioned = colon != std::string_view::npos;
  if (model.name.empty() || (versioned && (!absl::SimpleAtoi(View(text.substr(colon + 1)), &version) || version < 1))) {
    return UsageError(
        absl::StrCat(View(what), " ", View(text), ": expected NAME or NAME:VERSION, such as vad or vad:3"));
  }
  if (versioned) model.version = version;
  return model;
}

absl::StatusOr<client::Target> TargetFrom(const Arguments& arguments) {
  const int targets = arguments.Has("op") + arguments.Has("model") + arguments.Has("fingerprint");
  if (targets != 1) {
    return UsageError(targets == 0 ? "what to run is missing: --op, --model or --fingerprint"
                                   : "--op, --model and --fingerprint exclude each other");
  }
  if (arguments.Has("op")) {
    ASSIGN_OR_RETURN(OperatorDef op, OperatorFrom(arguments));
    return client::Target(std::move(op));
  }
  for (const Flag& flag : {kOpsetFlag, kOpVersionFlag, kDomainFlag, kAttrFlag}) {
    if (arguments.Has(flag.name)) {
      return UsageError(absl::StrCat("--", View(flag.name), " belongs to --op; a model has its own"));
    }
  }
  if (const auto fingerprint = arguments.Get("fingerprint")) return client::Target(client::Fingerprint{*fingerprint});
  ASSIGN_OR_RETURN(client::ModelRef model, ParseModelRef(*arguments.Get("model"), "--model"));
  return client::Target(std::move(model));
}

absl::Status ExpectArguments(const Arguments& arguments, size_t count, const std::string& what) {
  if (arguments.positional().size() == count) return absl::OkStatus();
  if (arguments.positional().size() > count) {
    return UsageError(absl::StrCat("unexpected argument ", arguments.positional()[count]));
  }
  return UsageError(absl::StrCat(what, " is missing"));
}

}  // namespace rnnserve::rnnctl
