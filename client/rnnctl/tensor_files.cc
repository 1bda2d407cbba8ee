// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/tensor_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/npy.h"

namespace rnnserve::rnnctl {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 31;
constexpr std::string_view kOutput = "rnnctl/OUTPUT";

client::Tensor NarrowLengths(client::Tensor tensor) {
  if (tensor.name != "sequence_lens" || tensor.type != DataType::kInt64) return tensor;
  std::vector<int32_t> narrow;
  for (double value : client::ValuesOf(tensor)) {
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) return tensor;
    narrow.push_back(static_cast<int32_t>(value));
  }
  return client::MakeTensor(tensor.name, tensor.shape, narrow);
}

// The tensor's name with '_' for what a file's name should not have; a server may name it in any way.
std::string FileName(std::string_view name) {
  std::string plain(name.substr(0, 100));
  for (char& c : plain) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  }
  if (plain.empty() || plain[0] == '.') plain.insert(plain.begin(), '_');
  return plain;
}

}  // namespace

absl::StatusOr<DataType> CastType(const std::string& name) {
  for (DataType type : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat, DataType::kDouble}) {
    if (DataTypeName(type) == name) return type;
  }
  return UsageError(absl::StrCat("--cast ", name, ": expected float16, bfloat16, float32 or float64"));
}

absl::StatusOr<std::string> ReadAll(std::istream& in, std::string_view what) {
  std::string bytes;
  std::vector<char> chunk(1 << 16);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    bytes.append(chunk.data(), static_cast<size_t>(in.gcount()));
    if (bytes.size() >= kMaxFileBytes) {
      return UsageError(absl::StrCat(View(what), " is larger than 2 GiB, more than protobuf reads"));
    }
  }
  if (in.bad()) return UsageError(absl::StrCat("cannot read ", View(what)));
  return bytes;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return UsageError(absl::StrCat(path, " is a folder, not a file"));
  std::ifstream file(path, std::ios::binary);
  if (!file) return UsageError(absl::StrCat("cannot read ", path, ": does it exist, and may you read it?"));
  return ReadAll(file, path);
}

absl::StatusOr<std::vector<client::Tensor>> ReadTensors(std::span<const std::string> flags,
                                                        std::optional<std::string> cast) {
  absl::StatusOr<DataType> type = DataType::kFloat;
  if (cast) type = CastType(*cast);
  if (!type.ok()) return type.status();
  std::vector<client::Tensor> tensors;
  std::set<std::string> names;
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == flag.size()) {
      return UsageError(absl::StrCat("--tensor ", flag, ": expected NAME=FILE.npy, for example X=x.npy"));
    }
    const std::string name = flag.substr(0, equals);
    const std::string path = flag.substr(equals + 1);
    if (!names.insert(name).second) return UsageError(absl::StrCat("--tensor ", name, " is given twice"));
    const absl::StatusOr<std::string> bytes = ReadFile(path);
    if (!bytes.ok()) return UsageError(absl::StrCat("--tensor ", name, ": ", bytes.status().message()));
    absl::StatusOr<client::Tensor> tensor = ParseNpy(*bytes);
    if (!tensor.ok()) return UsageError(absl::StrCat("--tensor ", name, ": ", path, " ", tensor.status().message()));
    tensor->name = name;
    if (cast && IsFloating(tensor->type)) tensor = client::ConvertTensor(*std::move(tensor), *type);
    if (!tensor.ok()) return tensor.status();
    tensors.push_back(NarrowLengths(*std::move(tensor)));
  }
  return tensors;
}

absl::StatusOr<std::vector<std::string>> WriteTensors(const std::vector<client::Tensor>& tensors,
                                                      const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return OutputError(absl::StrCat("--out ", folder, ": cannot make the folder: ", error.message()));
  std::vector<std::string> paths;
  for (const client::Tensor& tensor : tensors) {
    const std::string path = absl::StrCat(folder, "/", FileName(tensor.name), ".npy");
    if (std::ranges::find(paths, path) != paths.end()) {
      return OutputError(absl::StrCat("--out: two outputs would be ", path, "; name one by --outputs, or use --json"));
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    const std::string bytes = FormatNpy(tensor);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) return OutputError(absl::StrCat("--out ", folder, ": cannot write ", path));
    paths.push_back(path);
  }
  return paths;
}

absl::Status OutputError(const std::string& message) { return WithReason(absl::UnknownError(message), kOutput); }

bool IsOutputError(const absl::Status& status) { return ReasonOf(status) == kOutput; }

}  // namespace rnnserve::rnnctl
