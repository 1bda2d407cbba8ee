// SPDX-License-Identifier: Apache-2.0
// rnnctl stream: one session, fed chunk by chunk.
#include "client/rnnctl/command.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/cpp/rnn_stream.h"
#include "client/rnnctl/call.h"
#include "client/rnnctl/show.h"
#include "client/rnnctl/stream/feeding.h"
#include "client/rnnctl/stream/results.h"
#include "client/rnnctl/stream/source.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Flag kServersFlag = {
    .name = "server",
    .value = "HOST:PORT,...",
    .help = "where rnnserve listens, and where to go on when it leaves; default as in infer"};
constexpr Flag kChunkFlag = {.name = "chunk", .value = "N", .help = "steps a chunk; default 16"};
constexpr Flag kRealtimeFlag = {
    .name = "realtime",
    .value = "RATE|wav",
    .help = "send each chunk when a source of RATE steps a second would have it; wav: at the recording's own rate"};
constexpr Flag kFormatFlag = {
    .name = "format",
    .value = "FORMAT",
    .help = "npy, wav, or raw (bare little-endian float32); default: npy or wav, by its mark"};
constexpr Flag kSampleRateFlag = {
    .name = "sample-rate", .value = "HZ", .help = "WAV: refuse a recording of another rate than the model's"};
constexpr Flag kFeaturesFlag = {
    .name = "features", .value = "N", .help = "WAV and raw: values of a step; default: as the model says"};
constexpr Flag kRowsFlag = {
    .name = "rows", .value = "N", .help = "WAV: one for each channel; raw: rows of a step; default 1"};
constexpr Flag kResultsFlag = {.name = "out",
                               .value = "DIR",
                               .help = "write outputs and final state as .npy; -: the first output, raw, to stdout"};
constexpr Flag kSessionNameFlag = {.name = "name", .value = "NAME", .help = "of the session"};
constexpr Flag kAttachFlag = {
    .name = "attach", .value = "", .help = "go on with the live session --name, if there is one"};
constexpr Flag kKeepFlag = {.name = "keep", .value = "", .help = "leave the session open at the end"};
constexpr Flag kEveryFlag = {.name = "checkpoint-every",
                             .value = "N",
                             .help = "take the state every N chunks, to survive a killed server; default 0, never"};
constexpr Flag kInFlightFlag = {.name = "in-flight", .value = "N", .help = "chunks unanswered at once; default 8"};
constexpr Flag kTimeoutHereFlag = {
    .name = "timeout",
    .value = "TIME",
    .help = "give up when a chunk has no answer for so long, reconnecting included; default 60s"};

constexpr std::array kStreamFlags = {
    kModelFlag,       kFingerprintFlag,   kOpFlag,        kOpsetFlag,      kOpVersionFlag, kDomainFlag,
    kAttrFlag,        kTensorFlag,        kCastFlag,      kOutputsFlag,    kFormatFlag,    kSampleRateFlag,
    kChunkFlag,       kRealtimeFlag,      kFeaturesFlag,  kRowsFlag,       kResultsFlag,   kJsonFlag,
    kValuesFlag,      kSessionNameFlag,   kAttachFlag,    kKeepFlag,       kEveryFlag,     kInFlightFlag,
    kEngineFlag,      kDeterministicFlag, kReducedFlag,   kWeightTypeFlag, kClipCellFlag,  kServersFlag,
    kTimeoutHereFlag, kMaxReplyFlag,      kDurabilityFlag};

constexpr std::string_view kStreamText =
    R"(Opens a session, feeds it the input chunk by chunk, and prints each chunk's outputs as they come. The input is a file,
or standard input where it is - or not given:
- .npy: [steps, rows, features], [steps, features] or [steps], in the order of the model's axes; of a model that takes
  one number a step, such as a token: [steps, rows] or [steps];
- WAV: PCM scaled to [-1, 1), or floats as they are. One channel: successive samples fill a step, as many as the model
  has features. Several: as many as the model has features (a step is a sample of each), or as --rows (each is a row);
- with --format=raw: bare little-endian float32 values, step by step, as they arrive.
Other tensors are the weights of --op and the initial state: initial_h, initial_c, or as the model's file calls them.

Goes on by itself after a lost connection, on the next of several servers (or behind one balanced address) when one
leaves, and with --checkpoint-every also when one is killed. What cannot be recovered ends it with DATA_LOSS.
Ctrl-C ends the input: what was read is answered, and the session is closed (--keep: left open).

--json prints one line a chunk, the JSON form of rnnserve.v1.OperationReply, and a line with the summary at the end.
--out DIR writes outputs of all steps (Y.npy), the last of the others, and the final state as initial_h.npy, initial_c.npy:
--tensor initial_h=DIR/initial_h.npy goes on from there.

Examples:
  rnnctl stream --model vad --outputs Y_h x.npy
  rnnctl stream --model vad --sample-rate 16000 --realtime wav speech.wav --server gpu-1:50051,gpu-2:50051
  arecord -q -t wav -f S16_LE -c 1 -r 16000 | rnnctl stream --model vad --sample-rate 16000 --checkpoint-every 100
  arecord -q -t raw -f FLOAT_LE -c 1 -r 16000 | rnnctl stream --model vad --format raw
  rnnctl stream --model lm tokens.npy
  rnnctl stream --op GRU --opset 14 --tensor W=w.npy --tensor R=r.npy --out results x.npy)";

absl::StatusOr<client::SessionSpec> SpecFrom(const Arguments& arguments) {
  client::SessionSpec spec;
  ASSIGN_OR_RETURN(spec.target, TargetFrom(arguments));
  ASSIGN_OR_RETURN(std::vector<client::Tensor> tensors, ReadTensors(arguments.All("tensor"), arguments.Get("cast")));
  for (client::Tensor& tensor : tensors) {
    if (tensor.name == "X")
      return UsageError("--tensor X: the input is given as a file name alone, or comes on standard input");
    const bool is_state = tensor.name.starts_with("initial_") || !std::holds_alternative<OperatorDef>(spec.target);
    (is_state ? spec.state : spec.weights).push_back(std::move(tensor));
  }
  if (const auto outputs = arguments.Get("outputs")) spec.outputs = absl::StrSplit(*outputs, ',', absl::SkipEmpty());
  ASSIGN_OR_RETURN(spec.options, OptionsFrom(arguments));
  ASSIGN_OR_RETURN(spec.durability, DurabilityFrom(arguments));
  spec.engine = arguments.Get("engine").value_or("");
  spec.name = arguments.Get("name").value_or("");
  spec.attach = arguments.Has("attach");
  if (spec.attach && spec.name.empty()) return UsageError("--attach needs the --name to attach to");
  return spec;
}

absl::StatusOr<client::StreamOptions> StreamOptionsFrom(const Arguments& arguments) {
  client::StreamOptions options;
  ASSIGN_OR_RETURN(const client::ClientOptions common, ClientOptionsFrom(arguments));
  options.max_receive_bytes = common.max_receive_bytes;
  options.credentials = common.credentials;
  options.max_wait = common.timeout;
  if (options.max_wait.count() == 0) options.max_wait = std::chrono::hours(24 * 365);
  ASSIGN_OR_RETURN(const std::optional<int64_t> every, IntFlag(arguments, "checkpoint-every", 0, 1'000'000));
  options.checkpoint_every = static_cast<int32_t>(every.value_or(0));
  ASSIGN_OR_RETURN(const std::optional<int64_t> in_flight, IntFlag(arguments, "in-flight", 1, 1000));
  options.max_in_flight = static_cast<int32_t>(in_flight.value_or(options.max_in_flight));
  return options;
}

// What X looks like to the operator given on the command line.
XShape ShapeOf(const OperatorDef& op, const std::vector<client::Tensor>& weights) {
  XShape x;
  const auto layout = op.attributes.find("layout");
  const auto* value = layout == op.attributes.end() ? nullptr : std::get_if<int64_t>(&layout->second);
  x.step_axis = op.domain == "openvino" || (value != nullptr && *value == 1) ? 1 : 0;
  x.step_axes = {{"Y", op.domain == "openvino" ? 2 : x.step_axis}};
  for (const client::Tensor& weight : weights) {
    if (weight.name != "W" || weight.shape.empty()) continue;
    x.type = weight.type;
    x.features = weight.shape.back();
  }
  return x;
}

// And to a model: X, or what brings the steps by its file's name.
absl::StatusOr<XShape> ShapeOf(const client::ModelInfo& model) {
  XShape x;
  bool is_found = false;
  for (const client::TensorSpec& input : model.inputs) {
    const auto axis = std::ranges::find(input.shape, "T");
    if (input.optional || axis == input.shape.end()) continue;
    if (is_found) {
      return UsageError(absl::StrCat("each step of the model takes ", x.name, " and ", input.name,
                                     "; this command feeds one of them: use a client library"));
    }
    is_found = true;
    x.name = input.name;
    x.type = input.type;
    x.rank = input.shape.size();
    x.step_axis = static_cast<size_t>(axis - input.shape.begin());
    if (x.rank < 3 || !absl::SimpleAtoi(input.shape[2], &x.features)) x.features = 0;
    const auto rows_axis = static_cast<size_t>(std::ranges::find(input.shape, "N") - input.shape.begin());
    if (x.step_axis + rows_axis != 1) x.rows_axis = rows_axis;
  }
  for (const client::TensorSpec& output : model.outputs) {
    const auto axis = std::ranges::find(output.shape, "T");
    if (axis != output.shape.end()) x.step_axes[output.name] = static_cast<size_t>(axis - output.shape.begin());
  }
  x.step_axes.emplace("Y", x.step_axis);
  return x;
}

absl::StatusOr<XShape> FindShape(const client::SessionSpec& spec, const std::vector<std::string>& servers,
                                 const client::ClientOptions& options) {
  if (const auto* op = std::get_if<OperatorDef>(&spec.target)) return ShapeOf(*op, spec.weights);
  absl::StatusOr<client::ModelInfo> model = absl::UnavailableError("no server");
  for (const std::string& server : servers) {
    const absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(server, options);
    if (!client.ok()) return UsageError(absl::StrCat("--server: ", client.status().message()));
    const auto* ref = std::get_if<client::ModelRef>(&spec.target);
    model = ref != nullptr ? (*client)->Get(*ref) : (*client)->Get(std::get<client::Fingerprint>(spec.target));
    if (model.ok()) return ShapeOf(*model);
  }
  return model.status();
}

absl::StatusOr<Reading> ReadingFrom(const Arguments& arguments) {
  Reading reading;
  if (const auto text = arguments.Get("format")) {
    ASSIGN_OR_RETURN(reading.format, ParseInputFormat(*text));
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> steps, IntFlag(arguments, "chunk", 1, int64_t{1} << 24));
  reading.steps = steps.value_or(reading.steps);
  ASSIGN_OR_RETURN(const std::optional<int64_t> rate, IntFlag(arguments, "sample-rate", 1, int64_t{1} << 30));
  reading.sample_rate = rate.value_or(0);
  return reading;
}

// --rows and --features in place of what the model says.
absl::Status TakeShape(const Arguments& arguments, XShape& x) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> rows, IntFlag(arguments, "rows", 1, int64_t{1} << 20));
  x.rows = rows.value_or(1);
  ASSIGN_OR_RETURN(const std::optional<int64_t> features, IntFlag(arguments, "features", 1, int64_t{1} << 24));
  x.features = features.value_or(x.features);
  return absl::OkStatus();
}

// Of --realtime, in steps a second, 0 without; nothing: that of the recording.
absl::StatusOr<std::optional<double>> PaceFrom(const Arguments& arguments) {
  const auto text = arguments.Get("realtime");
  if (!text) return std::optional<double>(0);
  if (*text == "wav") return std::optional<double>();
  double pace = 0;
  if (absl::SimpleAtod(*text, &pace) && pace > 0 && pace <= 1e9) return std::optional<double>(pace);
  return UsageError(absl::StrCat("--realtime=", *text,
                                 ": expected steps a second, such as 100 or 31.25, or wav for the recording's"));
}

// The same, held against what the input says of itself.
absl::StatusOr<double> CheckedPace(std::optional<double> asked, const ChunkSource& source) {
  const double own = source.steps_per_second();
  if (!asked && own == 0) return UsageError("--realtime=wav: the input is no WAV; say its steps a second");
  if (!asked || *asked == 0 || own == 0) return asked.value_or(own);
  if (std::abs(*asked - own) <= 1e-6 * own) return own;
  return UsageError(
      absl::StrCat("--realtime=", *asked, ": the recording has ", own, " steps a second; --realtime=wav takes that"));
}

absl::StatusOr<ResultForm> FormFrom(const Arguments& arguments) {
  const bool raw = arguments.Get("out") == "-";
  if (raw && arguments.Has("json")) return UsageError("--out - and --json exclude each other");
  return raw ? ResultForm::kRaw : arguments.Has("json") ? ResultForm::kJson : ResultForm::kTable;
}

void PrintRemark(const std::string& remark, Streams& streams) {
  if (!remark.empty()) streams.err << Printable(remark) << "\n";
}

// Feeds the source and prints what comes.
absl::Status Feed(ChunkSource& source, const XShape& x, double pace, const Arguments& arguments,
                  client::RnnStream& stream, StreamResults& results, ResultForm form, Streams& streams) {
  PrintRemark(source.Introduction(), streams);
  const Clock::time_point start = Clock::now();
  int64_t steps = 0;
  RETURN_IF_ERROR(FeedAll(source, x.step_axis, pace, stream, results, steps));
  const auto wall = Clock::now() - start;
  ASSIGN_OR_RETURN(const client::SessionState state, arguments.Has("keep") ? stream.State() : stream.Close());
  RETURN_IF_ERROR(results.WriteFiles(state.tensors));
  const double rate = pace > 0 ? pace : source.steps_per_second();
  const auto audio = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(rate > 0 ? static_cast<double>(steps) / rate : 0));
  if (form == ResultForm::kJson) {
    streams.out << results.SummaryJson(wall, audio, stream.repairs(), stream.key(), stream.server());
  } else {
    (form == ResultForm::kRaw ? streams.err : streams.out) << results.Summary(wall, audio, stream.repairs());
    if (arguments.Has("keep")) PrintRemark(absl::StrCat("session ", stream.key(), " on ", stream.server()), streams);
  }
  PrintRemark(source.Remark(), streams);
  return absl::OkStatus();
}

absl::Status RunStream(const Arguments& arguments, Streams& streams) {
  if (arguments.positional().size() > 1) return ExpectArguments(arguments, 1, "");
  const std::string input = arguments.positional().empty() ? "-" : arguments.positional()[0];
  ASSIGN_OR_RETURN(const ResultForm form, FormFrom(arguments));
  ASSIGN_OR_RETURN(client::SessionSpec spec, SpecFrom(arguments));
  ASSIGN_OR_RETURN(const client::StreamOptions options, StreamOptionsFrom(arguments));
  ASSIGN_OR_RETURN(const Reading reading, ReadingFrom(arguments));
  // The server's default window keeps a reply of 256 steps.
  if (reading.steps > 256) spec.window_bytes = 1 << 20;
  XShape unknown;
  RETURN_IF_ERROR(TakeShape(arguments, unknown));
  ASSIGN_OR_RETURN(const std::optional<int64_t> values,
                   IntFlag(arguments, "values", 0, std::numeric_limits<int64_t>::max()));
  ASSIGN_OR_RETURN(const std::optional<double> asked_pace, PaceFrom(arguments));
  std::ifstream file;
  if (input != "-") {
    file.open(input, std::ios::binary);
    if (!file) return UsageError(absl::StrCat("cannot read ", input, ": does it exist, and may you read it?"));
  }

  const std::vector<std::string> servers = absl::StrSplit(ServerAddress(arguments), ',', absl::SkipEmpty());
  ASSIGN_OR_RETURN(const client::ClientOptions client_options, ClientOptionsFrom(arguments));
  ASSIGN_OR_RETURN(XShape x, FindShape(spec, servers, client_options));
  RETURN_IF_ERROR(TakeShape(arguments, x));
  if (std::ranges::find(spec.state, x.name, &client::Tensor::name) != spec.state.end()) {
    return UsageError(
        absl::StrCat("--tensor ", x.name, ": the input is given as a file name alone, or comes on standard input"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ChunkSource> source,
                   OpenSource(input == "-" ? streams.in : file, input == "-" ? "standard input" : input, x, reading));
  ASSIGN_OR_RETURN(const double pace, CheckedPace(asked_pace, *source));
  if (!spec.attach && spec.state.empty()) spec.rows = source->rows();
  ASSIGN_OR_RETURN(const std::unique_ptr<client::RnnStream> stream,
                   client::RnnStream::Open(servers, std::move(spec), options));
  const std::string folder = form == ResultForm::kRaw ? "" : arguments.Get("out").value_or("");
  StreamResults results(form, folder, static_cast<size_t>(values.value_or(4)), x.step_axes, streams.out);
  return Feed(*source, x, pace, arguments, *stream, results, form, streams);
}

constexpr Command kStreamCommands[] = {
    {.name = "stream",
     .summary = "feed a session chunk by chunk: a file, standard input, a real-time source",
     .usage = "[X.npy | X.wav | -] (--model NAME | --op TYPE ...) [FLAGS]",
     .text = kStreamText,
     .flags = kStreamFlags,
     .run = RunStream}};

}  // namespace

std::span<const Command> StreamCommands() { return kStreamCommands; }

}  // namespace rnnserve::rnnctl
