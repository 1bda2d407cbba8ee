// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/source.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/npy.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/stream/steps.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr int64_t kMaxChunkBytes = int64_t{1} << 30;

class ArraySource final : public ChunkSource {
 public:
  ArraySource(client::Tensor x, size_t axis, int64_t steps) : x_(std::move(x)), axis_(axis), steps_(steps) {}

  absl::StatusOr<std::optional<client::Tensor>> Next() override {
    const int64_t count = std::min(steps_, x_.shape[axis_] - at_);
    if (count <= 0) return std::optional<client::Tensor>();
    return std::optional(SliceSteps(x_, axis_, std::exchange(at_, at_ + count), count));
  }
  int64_t rows() const override { return x_.shape[1 - axis_]; }

 private:
  const client::Tensor x_;
  const size_t axis_;
  const int64_t steps_;
  int64_t at_ = 0;
};

class RawSource final : public ChunkSource {
 public:
  RawSource(std::istream& in, std::string name, std::string begun, const XShape& x, int64_t steps)
      : in_(in), name_(std::move(name)), begun_(std::move(begun)), x_(x), steps_(steps) {}

  absl::StatusOr<std::optional<client::Tensor>> Next() override {
    const size_t step_bytes = static_cast<size_t>(x_.rows * x_.features) * sizeof(float);
    std::string bytes(step_bytes * static_cast<size_t>(steps_), '\0');
    const size_t had = begun_.copy(bytes.data(), bytes.size());
    begun_.erase(0, had);
    in_.read(bytes.data() + had, static_cast<std::streamsize>(bytes.size() - had));
    bytes.resize(had + static_cast<size_t>(in_.gcount()));
    if (in_.bad()) return UsageError(absl::StrCat("cannot read ", name_));
    if (bytes.size() % step_bytes != 0) {
      return UsageError(absl::StrCat(name_, " ends within a step: ", bytes.size() % step_bytes,
                                     " bytes are left over, and a step of ", x_.rows, " rows of ", x_.features,
                                     " float32 values has ", step_bytes));
    }
    const auto steps = static_cast<int64_t>(bytes.size() / step_bytes);
    if (steps == 0) return std::optional<client::Tensor>();
    client::Tensor x{"X", DataType::kFloat, {steps, x_.rows, x_.features}, std::move(bytes)};
    if (x_.step_axis == 1) x = RowsFirst(std::move(x));
    absl::StatusOr<client::Tensor> converted = client::ConvertTensor(std::move(x), x_.type);
    if (!converted.ok()) return converted.status();
    return std::optional(*std::move(converted));
  }
  int64_t rows() const override { return x_.rows; }

 private:
  // [T, N, I] to [N, T, I].
  static client::Tensor RowsFirst(client::Tensor x) {
    std::vector<client::Tensor> rows;
    for (int64_t row = 0; row < x.shape[1]; ++row) {
      client::Tensor one = SliceSteps(x, 1, row, 1);
      one.shape = {1, x.shape[0], x.shape[2]};
      rows.push_back(std::move(one));
    }
    return JoinSteps(rows, 0);
  }

  std::istream& in_;
  const std::string name_;
  std::string begun_;
  const XShape x_;
  const int64_t steps_;
};

absl::StatusOr<std::unique_ptr<ChunkSource>> OpenArray(std::string begun, std::istream& in, const std::string& name,
                                                       const XShape& shape, int64_t steps) {
  absl::StatusOr<std::string> rest = ReadAll(in, name);
  if (!rest.ok()) return rest.status();
  absl::StatusOr<client::Tensor> x = client::ParseNpy(begun.append(*rest));
  if (!x.ok()) return UsageError(absl::StrCat(name, " ", x.status().message()));
  if (x->shape.size() == 1) x->shape = {x->shape[0], 1, 1};
  if (x->shape.size() == 2) {
    x->shape.insert(x->shape.begin() + (shape.step_axis == 0 ? 1 : 0), 1);
  }
  if (x->shape.size() != 3 || x->shape[1 - shape.step_axis] == 0) {
    return UsageError(absl::StrCat(name, " has shape ", ShapeString(x->shape), "; expected ",
                                   shape.step_axis == 0 ? "[steps, rows, features]" : "[rows, steps, features]",
                                   ", [steps, features] or [steps]"));
  }
  if (x->type != shape.type) x = client::ConvertTensor(*std::move(x), shape.type);
  if (!x.ok()) return UsageError(absl::StrCat(name, ": ", x.status().message()));
  client::Tensor named{"X", x->type, x->shape, std::move(x->bytes)};
  return std::make_unique<ArraySource>(std::move(named), shape.step_axis, steps);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChunkSource>> OpenSource(std::istream& in, const std::string& name, const XShape& x,
                                                        int64_t steps) {
  // No further than needed: a slow source's first step is not held up.
  std::string begun;
  while (begun.size() < kNpyMagic.size() && kNpyMagic.starts_with(begun)) {
    const int next = in.get();
    if (next == std::istream::traits_type::eof()) break;
    begun.push_back(static_cast<char>(next));
  }
  if (begun == kNpyMagic) return OpenArray(std::move(begun), in, name, x, steps);
  if (x.features == 0) {
    return UsageError(
        absl::StrCat(name, " holds raw values, and how many make one step is not known; say it with --features=N"));
  }
  if (x.rows > kMaxChunkBytes / x.features / steps / static_cast<int64_t>(sizeof(float))) {
    return UsageError(absl::StrCat("--chunk=", steps, " steps of ", x.rows, " rows of ", x.features,
                                   " values do not fit into one message; take fewer"));
  }
  return std::make_unique<RawSource>(in, name, std::move(begun), x, steps);
}

}  // namespace rnnserve::rnnctl
