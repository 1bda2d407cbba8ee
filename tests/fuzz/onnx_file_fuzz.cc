// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/onnx_file_fuzz.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/op/stack.h"
#include "onnx_file/inspect.h"
#include "onnx_file/loader.h"
#include "onnx_file/split.h"

namespace rnnserve {
namespace {

[[noreturn]] void Fail(const char* what, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::abort();
}

// A folder of this process, with a file of external data beside the model.
class WorkFolder {
 public:
  WorkFolder() {
    const std::filesystem::path memory = "/dev/shm";  // a disk would take most of the time
    const bool in_memory = access(memory.c_str(), W_OK) == 0;
    std::string pattern =
        ((in_memory ? memory : std::filesystem::temp_directory_path()) / "rnnserve_fuzz_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
    std::ofstream(path_ / "w.bin", std::ios::binary) << std::string(64, '\1');
    std::filesystem::create_directory(path_ / "extracted");
  }
  ~WorkFolder() { std::filesystem::remove_all(path_); }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  static const std::filesystem::path& Path() {
    static const WorkFolder folder;
    return folder.path_;
  }

 private:
  std::filesystem::path path_;
};

absl::StatusOr<StackSpec> Resolve(const absl::StatusOr<OnnxStack>& loaded) {
  if (!loaded.ok()) return loaded.status();
  std::vector<LayerView> layers;
  for (const OnnxOperator& layer : loaded->layers) layers.push_back({layer.op, layer.weights});
  return ResolveStack(layers, loaded->batch_first, loaded->pipeline, loaded->file_names);
}

void CheckExtracted(const OnnxInspection& found, const InspectedNode& node) {
  const absl::StatusOr<std::string> bytes = ExtractOnnx(found, node);
  if (!bytes.ok()) Fail("a sound node cannot be extracted", bytes.status());
  const std::filesystem::path folder = WorkFolder::Path() / "extracted";
  std::ofstream(folder / "model.onnx", std::ios::binary) << *bytes;
  const absl::StatusOr<OnnxStack> loaded = LoadOnnx(Folder::Open(folder.string()).value());
  const absl::StatusOr<StackSpec> spec = Resolve(loaded);
  if (!spec.ok()) Fail("an extracted node does not load", spec.status());
  if (spec->layers.size() != 1 || spec->batch_first) Fail("an extracted node is more than one", spec.status());
  if (spec->layers[0].CanonicalText() != node.spec->CanonicalText())
    Fail("an extracted node is another operator", spec.status());
  const auto same = [](const NamedTensor& a, const NamedTensor& b) {
    return a.name == b.name && a.tensor.shape == b.tensor.shape && std::ranges::equal(a.tensor.data, b.tensor.data);
  };
  if (!std::ranges::equal(loaded->layers[0].weights, node.weights, same))
    Fail("an extracted node has other weights", {});
}

// All sound nodes as one stack: what is not refused loads, with all of them.
void CheckStack(const OnnxInspection& found, const Folder& folder) {
  std::vector<const InspectedNode*> nodes;
  for (const InspectedNode& node : found.nodes) {
    if (node.status.ok()) nodes.push_back(&node);
  }
  if (nodes.size() < 2) return;
  const absl::StatusOr<std::string> bytes = ExtractOnnx(found, folder, nodes);
  if (!bytes.ok()) return;
  const absl::StatusOr<StackSpec> spec = Resolve(LoadOnnxBytes(*bytes));
  if (!spec.ok()) Fail("an extracted stack does not load", spec.status());
  if (spec->layers.size() != nodes.size()) Fail("an extracted stack has other layers", spec.status());
}

void CheckSplit(const OnnxInspection& found, const Folder& folder) {
  const absl::StatusOr<OnnxSplit> split = SplitOnnx(found, folder, {});
  if (!split.ok()) return;
  for (const SplitPart& part : split->parts) {
    if (part.name != "served") continue;
    const absl::StatusOr<StackSpec> spec = Resolve(LoadOnnxBytes(part.bytes));
    if (!spec.ok()) Fail("a served part does not load", spec.status());
  }
}

}  // namespace

void FuzzOnnxFile(std::string_view bytes) {
  std::ofstream(WorkFolder::Path() / "model.onnx", std::ios::binary) << bytes;
  const Folder folder = Folder::Open(WorkFolder::Path().string()).value();
  const absl::StatusOr<StackSpec> as_it_is = Resolve(LoadOnnx(folder));
  const absl::StatusOr<OnnxInspection> found = InspectOnnx(folder, "model.onnx");
  if (!found.ok()) {
    if (as_it_is.ok()) Fail("what loads cannot be inspected", found.status());
    return;
  }
  if (found->loads.ok() != as_it_is.ok()) Fail("inspection says otherwise than the loader", as_it_is.status());
  for (const InspectedNode& node : found->nodes) {
    if (node.status.ok()) CheckExtracted(*found, node);
  }
  CheckStack(*found, folder);
  CheckSplit(*found, folder);
}

}  // namespace rnnserve
