// SPDX-License-Identifier: Apache-2.0
// rnnctl inspect, rnnctl extract, rnnctl split.
#include "client/rnnctl/command.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/rnnctl/inspect/precision.h"
#include "client/rnnctl/inspect/report.h"
#include "client/rnnctl/inspect/split_report.h"
#include "client/rnnctl/npy.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

absl::Status OnlyFile(const Arguments& arguments) {
  if (arguments.positional().empty()) return UsageError("the ONNX file is missing");
  if (arguments.positional().size() == 1) return absl::OkStatus();
  return UsageError(absl::StrCat("unexpected argument ", arguments.positional()[1]));
}

struct Inspected {
  Folder folder;
  OnnxInspection file;
};

// Follows links: external data lie beside the file itself.
absl::StatusOr<Inspected> InspectIn(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return UsageError(absl::StrCat(path, ": ", error.message()));
  absl::StatusOr<Folder> folder = Folder::Open(real.parent_path().string());
  absl::Status status = folder.status();
  if (folder.ok()) {
    absl::StatusOr<OnnxInspection> found = InspectOnnx(*folder, real.filename().string());
    if (found.ok()) return Inspected{*std::move(folder), *std::move(found)};
    status = found.status();
  }
  return UsageError(absl::StrCat(path, ": ", status.message()));
}

// By --input.
absl::StatusOr<std::optional<client::Tensor>> InputFrom(const Arguments& arguments) {
  const std::optional<std::string> path = arguments.Get("input");
  if (!path) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(*path));
  absl::StatusOr<client::Tensor> x = ParseNpy(bytes);
  if (!x.ok()) return UsageError(absl::StrCat(*path, ": ", x.status().message()));
  return *std::move(x);
}

absl::Status RunInspect(const Arguments& arguments, Streams& streams) {
  if (absl::Status only = OnlyFile(arguments); !only.ok()) return only;
  const std::string& path = arguments.positional()[0];
  const absl::StatusOr<Inspected> found = InspectIn(path);
  if (!found.ok()) return found.status();
  const OnnxInspection& file = found->file;
  absl::StatusOr<OnnxSplit> cut = absl::NotFoundError("no need of one");
  if (!file.loads.ok() && !file.nodes.empty()) cut = SplitOnnx(file, found->folder, {});
  const OnnxSplit* const split = cut.ok() ? &*cut : nullptr;
  std::vector<inspect::NodePrecision> precision;
  if (arguments.Has("precision")) {
    ASSIGN_OR_RETURN(const std::optional<client::Tensor> x, InputFrom(arguments));
    ASSIGN_OR_RETURN(precision, inspect::MeasurePrecision(file, x));
  } else if (arguments.Has("input")) {
    return UsageError("--input is for --precision");
  }
  if (arguments.Has("json")) {
    streams.out << inspect::ReportJson(path, file, split, precision);
  } else {
    streams.out << inspect::ShowReport(path, file, split);
    if (!precision.empty()) streams.out << inspect::ShowPrecision(file, precision);
  }
  return absl::OkStatus();
}

// By name, or by number where names are missing or repeated.
absl::StatusOr<const InspectedNode*> FindNode(const OnnxInspection& file, const std::string& wanted) {
  std::vector<const InspectedNode*> found;
  for (const InspectedNode& node : file.nodes) {
    if (node.name == wanted) found.push_back(&node);
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    std::string numbers;
    for (const InspectedNode* node : found) absl::StrAppend(&numbers, numbers.empty() ? "" : ", ", node->number);
    return UsageError(
        absl::StrCat(found.size(), " nodes are called ", wanted, "; give --node one of the numbers ", numbers));
  }
  size_t number = 0;
  if (absl::SimpleAtoi(wanted, &number) && number >= 1 && number <= file.nodes.size()) return &file.nodes[number - 1];
  std::string known;
  for (const InspectedNode& node : file.nodes) {
    if (node.number <= 16) absl::StrAppend(&known, "\n  ", node.number, "  ", node.op.op_type, "  ", node.name);
  }
  return UsageError(absl::StrCat("no recurrent node is called ", wanted,
                                 known.empty() ? "; the file has none" : absl::StrCat("; there are:", known)));
}

// Whole or not at all: a server may be looking. Its hidden name until then is one that servers pass over.
absl::Status Write(const std::filesystem::path& path, const std::string& bytes) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) return OutputError(absl::StrCat("cannot make the folder of ", path.string(), ": ", error.message()));
  const std::filesystem::path unfinished = path.parent_path() / absl::StrCat(".", path.filename().string(), ".tmp");
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (file) std::filesystem::rename(unfinished, path, error);
  if (file && !error) return absl::OkStatus();
  std::filesystem::remove(unfinished, error);
  return OutputError(absl::StrCat("cannot write ", path.string()));
}

// How a server comes to serve what was written.
std::string NextStep(const std::filesystem::path& path) {
  const std::filesystem::path version = path.parent_path(), name = version.parent_path();
  int64_t number = 0;
  if (path.filename() != "model.onnx" || !absl::SimpleAtoi(version.filename().string(), &number) || number < 1 ||
      !name.has_filename()) {
    return "a server reads it as NAME/VERSION/model.onnx of its folder --models\n";
  }
  const std::string folder = name.has_parent_path() ? name.parent_path().string() : ".";
  return absl::StrCat("a server with --models=", folder, " has it as ", name.filename().string(), ":", number, "\n");
}

// Those of all --node, each a name, a number, or several of them with commas between. The file's only node without it.
absl::StatusOr<std::vector<const InspectedNode*>> FindNodes(const OnnxInspection& file, const std::string& path,
                                                            const std::vector<std::string>& wanted) {
  if (wanted.empty() && file.nodes.size() != 1) {
    return UsageError(
        absl::StrCat("--node is missing: ", path, " has ", file.nodes.size(), " recurrent nodes (see rnnctl inspect)"));
  }
  if (wanted.empty()) return std::vector<const InspectedNode*>{&file.nodes[0]};
  std::vector<const InspectedNode*> nodes;
  for (const std::string& words : wanted) {
    const bool is_name = std::ranges::find(file.nodes, words, &InspectedNode::name) != file.nodes.end();
    const std::vector<std::string> parts =
        is_name ? std::vector<std::string>{words} : std::vector<std::string>(absl::StrSplit(words, ','));
    for (const std::string& part : parts) {
      const absl::StatusOr<const InspectedNode*> node = FindNode(file, part);
      if (!node.ok()) return node.status();
      nodes.push_back(*node);
    }
  }
  return nodes;
}

absl::Status RunExtract(const Arguments& arguments, Streams& streams) {
  if (absl::Status only = OnlyFile(arguments); !only.ok()) return only;
  const std::optional<std::string> target = arguments.Get("out");
  if (!target || target->empty()) return UsageError("where to write is missing: -o FOLDER/NAME/1/model.onnx");
  const std::string& path = arguments.positional()[0];
  const absl::StatusOr<Inspected> found = InspectIn(path);
  if (!found.ok()) return found.status();
  const OnnxInspection& file = found->file;
  const absl::StatusOr<std::vector<const InspectedNode*>> nodes = FindNodes(file, path, arguments.All("node"));
  if (!nodes.ok()) return nodes.status();
  const InspectedNode& first = *nodes->front();
  const absl::StatusOr<std::string> bytes = ExtractOnnx(file, found->folder, *nodes);
  if (!bytes.ok()) {
    const std::string node =
        nodes->size() > 1 ? "" : absl::StrCat(": ", first.op.op_type, " ", inspect::NodeKey(file, first));
    return UsageError(absl::StrCat(path, node, ": ", bytes.status().message()));
  }
  std::error_code error;
  if (std::filesystem::equivalent(path, *target, error)) return UsageError("-o names the file that is read");
  if (absl::Status written = Write(*target, *bytes); !written.ok()) return written;
  streams.out << "wrote " << *target << " (" << bytes->size() << " bytes); " << NextStep(*target);
  for (const InspectedNode* node : *nodes) {
    for (const InspectedInput& input : node->inputs) {
      if (!input.remark.empty()) streams.out << "mind: " << input.remark << "\n";
    }
  }
  return absl::OkStatus();
}

absl::Status RunSplit(const Arguments& arguments, Streams& streams) {
  if (absl::Status only = OnlyFile(arguments); !only.ok()) return only;
  const std::string& path = arguments.positional()[0];
  const absl::StatusOr<Inspected> found = InspectIn(path);
  if (!found.ok()) return found.status();
  SplitOptions options = {.stream = arguments.Has("stream")};
  if (const std::optional<std::string> wanted = arguments.Get("node")) {
    const absl::StatusOr<const InspectedNode*> node = FindNode(found->file, *wanted);
    if (!node.ok()) return node.status();
    options.node = *node;
  }
  const absl::StatusOr<OnnxSplit> split = SplitOnnx(found->file, found->folder, options);
  if (!split.ok()) return UsageError(absl::StrCat(path, ": ", split.status().message()));
  const std::filesystem::path folder =
      arguments.Get("output").value_or(std::filesystem::path(path).stem().string() + ".split");
  std::error_code error;
  for (const SplitPart& part : split->parts) {
    const std::filesystem::path target = folder / inspect::FileOf(part);
    if (std::filesystem::equivalent(path, target, error)) {
      return UsageError(absl::StrCat(target.string(), " is the file that is read; name another folder by --output"));
    }
  }
  for (const char* name : {"before", "served", "after"}) {  // of an earlier run
    std::filesystem::remove(folder / absl::StrCat(name, ".onnx"), error);
  }
  for (const SplitPart& part : split->parts) {
    if (absl::Status written = Write(folder / inspect::FileOf(part), part.bytes); !written.ok()) return written;
  }
  streams.out << (arguments.Has("json") ? inspect::SplitJson(folder.string(), *split)
                                        : inspect::ShowSplit(folder.string(), *split));
  return absl::OkStatus();
}

constexpr std::array kSplitFlags = {
    Flag{.name = "node",
         .value = "NAME",
         .help = "the recurrent node to serve, by its name or its number in rnnctl inspect; without it, all of the "
                 "main graph"},
    Flag{.name = "stream",
         .value = "",
         .help = "leave what ends a sequence (a mean over time, the last step) to the part after, so that sessions "
                 "give every output of the part served"},
    Flag{.name = "output",
         .value = "DIR",
         .help = "where to write; folders are made; without it, the file's name with .split",
         .short_name = 'o'},
    Flag{.name = "json", .value = "", .help = "print JSON"}};

constexpr std::array kInspectFlags = {
    Flag{.name = "precision",
         .value = "",
         .help =
             "measure here what each weight_type costs in precision and takes of time and memory, on the nodes' own "
             "weights"},
    Flag{.name = "input",
         .value = "X.npy",
         .help = "with --precision: floats [T, I] or [T, N, I] to measure on; without it, random numbers of -1 to 1"},
    Flag{.name = "json", .value = "", .help = "print JSON"}};
constexpr std::array kExtractFlags = {
    Flag{.name = "node",
         .value = "NAME",
         .help =
             "which recurrent node, if there are several: its name, or its number in rnnctl inspect; given again, or "
             "with commas between: nodes that feed one another, as one stack",
         .repeated = true},
    Flag{.name = "out", .value = "FILE", .help = "where to write; folders are made", .short_name = 'o'}};

constexpr Command kInspectCommands[] = {
    {.name = "inspect",
     .summary = "show the recurrent nodes of an ONNX file, and what keeps each from being a model",
     .usage = "FILE [FLAGS]",
     .text =
         "Lists every LSTM, GRU and RNN node of an ONNX file, also those in the branches of If nodes: sizes, bytes of "
         "weights and of\none row's state, attributes other than the defaults, where the inputs come from, and "
         "whether "
         "the server loads it:\n\"yes\" as the file is, \"extract\" after rnnctl extract, or \"no\", with the reason "
         "and what to do.\nWeights that the graph computes from constants are computed. Of a file that no server "
         "takes\n"
         "whole it lists the nodes in the way; of a whole model it lists what runs in which order, with bytes and "
         "the\nmultiplications of a step. Needs no server.\n\nExamples:\n"
         "  rnnctl inspect model.onnx\n  rnnctl inspect model.onnx --json\n"
         "  rnnctl inspect model.onnx --precision     # errors and times with weights of float16, bfloat16 and int8",
     .flags = kInspectFlags,
     .run = RunInspect},
    {.name = "extract",
     .summary = "write one recurrent node of an ONNX file, or several as a stack, as a model of its own",
     .usage = "FILE [--node NAME]... -o FOLDER/NAME/VERSION/model.onnx",
     .text =
         "Writes an ONNX file with this node alone, for a graph that holds more than recurrent nodes: its weights are "
         "stored,\nevery other input is a graph input called as the operator calls it (X, sequence_lens, initial_h, "
         "initial_c). Where\nFOLDER is that of a server's --models, the server serves it. Several nodes have to feed "
         "one another; "
         "what lies between\nthem goes along, and states are called by layer (initial_h.0, Y_h.0). Needs no server.\n\n"
         "Examples:\n"
         "  rnnctl inspect silero_vad.onnx     # numbers and names of its nodes\n"
         "  rnnctl extract silero_vad.onnx --node 1 -o /srv/models/vad/1/model.onnx\n"
         "  rnnctl extract tagger.onnx --node 1,2 -o /srv/models/encoder/1/model.onnx\n"
         "  rnnctl models load vad --repository     # a server with --models=/srv/models that does not look by itself",
     .flags = kExtractFlags,
     .run = RunExtract},
    {.name = "split",
     .summary = "cut an ONNX file into what comes before, what a server serves, and what comes after",
     .usage = "FILE [--node NAME] [--stream] [--output DIR]",
     .text =
         "For a file that holds more than a server computes (convolutions over time, attention). Writes before.onnx, "
         "served.onnx\nand after.onnx: a general runtime such as onnxruntime runs before and after, a server runs "
         "served, which is as large as\nit can be; one after the other they compute what the whole file does. A part "
         "without nodes is not written. Prints what\neach part takes and gives, and which nodes are in the way. Needs "
         "no server.\n\n"
         "Examples:\n"
         "  rnnctl split model.onnx --output parts\n"
         "  rnnctl split model.onnx --stream --output parts     # the served part for sessions\n"
         "  rnnctl split silero_vad.onnx --node 1 --output parts     # inside the branches of If nodes\n"
         "  rnnctl models load vad parts/served.onnx",
     .flags = kSplitFlags,
     .run = RunSplit}};

}  // namespace

std::span<const Command> InspectCommands() { return kInspectCommands; }

}  // namespace rnnserve::rnnctl
