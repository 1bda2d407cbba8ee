// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/npy.h"
#include "client/rnnctl/stream/byte_source.h"
#include "client/rnnctl/stream/steps.h"
#include "client/rnnctl/stream/wav.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::string_view kWavMagic = "RIFF";
constexpr int64_t kMaxChunkBytes = int64_t{1} << 30;

size_t RowsAxis(const XShape& shape) { return shape.rows_axis.value_or(1 - shape.step_axis); }

class ArraySource final : public ChunkSource {
 public:
  ArraySource(client::Tensor x, const XShape& shape, int64_t steps)
      : x_(std::move(x)), axis_(shape.step_axis), rows_(x_.shape[RowsAxis(shape)]), steps_(steps) {}

  absl::StatusOr<std::optional<client::Tensor>> Next() override {
    const int64_t count = std::min(steps_, x_.shape[axis_] - at_);
    if (count <= 0) return std::optional<client::Tensor>();
    return std::optional(SliceSteps(x_, axis_, std::exchange(at_, at_ + count), count));
  }
  int64_t rows() const override { return rows_; }

 private:
  const client::Tensor x_;
  const size_t axis_;
  const int64_t rows_;
  const int64_t steps_;
  int64_t at_ = 0;
};

// [T, N, I] to [N, T, I].
client::Tensor RowsFirst(client::Tensor x) {
  std::vector<client::Tensor> rows;
  for (int64_t row = 0; row < x.shape[1]; ++row) {
    client::Tensor one = SliceSteps(x, 1, row, 1);
    one.shape = {1, x.shape[0], x.shape[2]};
    rows.push_back(std::move(one));
  }
  return JoinSteps(rows, 0);
}

// X of whole steps, float32 [T, N, I], as the model wants it. Nothing of no steps.
absl::StatusOr<std::optional<client::Tensor>> ChunkOf(std::string bytes, const XShape& shape) {
  const auto values = static_cast<int64_t>(bytes.size() / sizeof(float));
  if (values == 0) return std::optional<client::Tensor>();
  client::Tensor x{shape.name,
                   DataType::kFloat,
                   {values / (shape.rows * shape.features), shape.rows, shape.features},
                   std::move(bytes)};
  if (shape.step_axis == 1) x = RowsFirst(std::move(x));
  ASSIGN_OR_RETURN(client::Tensor converted, client::ConvertTensor(std::move(x), shape.type));
  return std::optional(std::move(converted));
}

class RawSource final : public ChunkSource {
 public:
  RawSource(ByteSource source, const XShape& x, int64_t steps) : source_(std::move(source)), x_(x), steps_(steps) {}

  absl::StatusOr<std::optional<client::Tensor>> Next() override {
    const size_t step_bytes = static_cast<size_t>(x_.rows * x_.features) * sizeof(float);
    std::string bytes = source_.Read(step_bytes * static_cast<size_t>(steps_));
    if (source_.failed()) return UsageError(absl::StrCat("cannot read ", source_.name()));
    if (bytes.size() % step_bytes != 0) {
      return UsageError(absl::StrCat(source_.name(), " ends within a step: ", bytes.size() % step_bytes,
                                     " bytes are left over, and a step of ", x_.rows, " rows of ", x_.features,
                                     " float32 values has ", step_bytes));
    }
    return ChunkOf(std::move(bytes), x_);
  }
  int64_t rows() const override { return x_.rows; }

 private:
  ByteSource source_;
  const XShape x_;
  const int64_t steps_;
};

class WavSource final : public ChunkSource {
 public:
  WavSource(ByteSource source, const XShape& x, int64_t steps)
      : source_(std::move(source)), wav_(source_), x_(x), steps_(steps) {}

  absl::Status Open(int64_t sample_rate) {
    RETURN_IF_ERROR(wav_.Open());
    const WavFormat& format = wav_.format();
    const std::string what = absl::StrCat(source_.name(), " has ", format.channels,
                                          format.channels == 1 ? " channel, but " : " channels, but ");
    if (x_.rows > 1 && format.channels != x_.rows) {
      return UsageError(absl::StrCat(what, "--rows=", x_.rows, " takes one for each row"));
    }
    moments_ = x_.rows == 1 && format.channels == x_.features ? 1 : x_.features;
    if (x_.rows == 1 && format.channels > 1 && moments_ != 1) {
      return UsageError(absl::StrCat(
          what, "a step of the model takes ", x_.features, " values of one; mix them (sox ",
          "IN.wav -c 1 OUT.wav), or feed each channel as a row of its own (--rows=", format.channels, ")"));
    }
    if (sample_rate != 0 && format.rate != sample_rate) {
      return UsageError(absl::StrCat(source_.name(), " has ", format.rate, " samples a second, --sample-rate says ",
                                     sample_rate, "; convert it: sox IN.wav -r ", sample_rate, " OUT.wav"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<client::Tensor>> Next() override {
    ASSIGN_OR_RETURN(std::vector<float> samples, wav_.Read(static_cast<size_t>(steps_ * moments_)));
    const auto step = static_cast<size_t>(moments_ * wav_.format().channels);
    left_over_ += samples.size() % step / static_cast<size_t>(wav_.format().channels);
    samples.resize(samples.size() / step * step);
    if (x_.rows > 1) samples = ByChannel(samples, step);
    return ChunkOf({reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(float)}, x_);
  }
  int64_t rows() const override { return x_.rows; }
  double steps_per_second() const override {
    return static_cast<double>(wav_.format().rate) / static_cast<double>(moments_);
  }
  std::string Introduction() const override {
    return absl::StrCat(source_.name(), ": WAV, ", wav_.format().Text(), "; ", moments_,
                        moments_ == 1 ? " sample a step, " : " samples a step, ", steps_per_second(),
                        " steps a second");
  }
  std::string Remark() const override {
    if (left_over_ == 0) return "";
    return absl::StrCat(source_.name(), ": the last ", left_over_, " samples fill no step of ", moments_,
                        " and were left out");
  }

 private:
  // The channels' samples of each moment of a step, as each channel's samples.
  std::vector<float> ByChannel(const std::vector<float>& samples, size_t step) const {
    const auto channels = static_cast<size_t>(x_.rows), moments = static_cast<size_t>(moments_);
    std::vector<float> sorted(samples.size());
    for (size_t begin = 0; begin < samples.size(); begin += step) {
      for (size_t k = 0; k < step; ++k) {
        sorted[begin + k % channels * moments + k / channels] = samples[begin + k];
      }
    }
    return sorted;
  }

  ByteSource source_;
  WavReader wav_;
  const XShape x_;
  const int64_t steps_;
  int64_t moments_ = 1;   // samples of a channel in a step
  size_t left_over_ = 0;  // of each channel
};

absl::StatusOr<std::unique_ptr<ChunkSource>> OpenArray(ByteSource source, const XShape& shape, int64_t steps) {
  const std::string& name = source.name();
  std::string bytes = source.Read(kNpyMagic.size());
  ASSIGN_OR_RETURN(std::string rest, ReadAll(source.rest(), name));
  absl::StatusOr<client::Tensor> x = ParseNpy(bytes.append(rest));
  if (!x.ok()) return UsageError(absl::StrCat(name, " ", x.status().message()));
  // Axes that the file leaves out: rows, and features.
  const auto rows_axis = static_cast<ptrdiff_t>(RowsAxis(shape));
  if (shape.rows_axis && x->shape.size() != shape.rank) {
    return UsageError(absl::StrCat(name, " has shape ", ShapeString(x->shape), "; ", shape.name, " has ", shape.rank,
                                   " axes, of which none can be left out"));
  }
  if (x->shape.size() == 1) x->shape.insert(x->shape.begin() + (shape.rank == 2 ? rows_axis : 1), 1);
  if (x->shape.size() == 2 && shape.rank == 3) x->shape.insert(x->shape.begin() + rows_axis, 1);
  if (x->shape.size() != shape.rank || x->shape[RowsAxis(shape)] == 0) {
    const std::string_view steps_and_rows = shape.step_axis == 0 ? "steps, rows" : "rows, steps";
    return UsageError(absl::StrCat(name, " has shape ", ShapeString(x->shape), "; expected [", View(steps_and_rows),
                                   shape.rank == 2 ? "]" : ", features], [steps, features]", " or [steps]"));
  }
  x->name = shape.name;
  if (x->type != shape.type) x = client::ConvertTensor(*std::move(x), shape.type);
  if (!x.ok()) return UsageError(absl::StrCat(name, ": ", x.status().message()));
  return std::make_unique<ArraySource>(*std::move(x), shape, steps);
}

// The next bytes of `source` from one to the whole of `magic`, as long as they are its beginning.
bool BeginsWith(ByteSource& source, std::string_view magic) {
  for (size_t count = 1; count <= magic.size(); ++count) {
    if (source.Peek(count) != magic.substr(0, count)) return false;
  }
  return true;
}

absl::StatusOr<InputFormat> Detect(ByteSource& source) {
  if (BeginsWith(source, kNpyMagic)) return InputFormat::kNpy;
  if (BeginsWith(source, kWavMagic)) return InputFormat::kWav;
  if (source.failed()) return UsageError(absl::StrCat("cannot read ", source.name()));
  return UsageError(absl::StrCat(source.name(), source.Peek(1).empty() ? " is empty" : " is no .npy and no WAV file",
                                 "; bare float32 values are read with --format=raw"));
}

}  // namespace

absl::StatusOr<InputFormat> ParseInputFormat(std::string_view text) {
  if (text == "npy") return InputFormat::kNpy;
  if (text == "wav") return InputFormat::kWav;
  if (text == "raw") return InputFormat::kRaw;
  return UsageError(absl::StrCat("--format=", View(text), ": expected npy, wav or raw"));
}

absl::StatusOr<std::unique_ptr<ChunkSource>> OpenSource(std::istream& in, const std::string& name, const XShape& x,
                                                        const Reading& reading) {
  ByteSource source(in, name);
  absl::StatusOr<InputFormat> format = reading.format;
  if (*format == InputFormat::kDetect) format = Detect(source);
  if (!format.ok()) return format.status();
  if (x.rows_axis && *format != InputFormat::kNpy) {
    return UsageError(absl::StrCat(name, " brings one step after the other, but ", x.name,
                                   " has the features of all steps side by side; only .npy files can be fed"));
  }
  if (reading.sample_rate != 0 && *format != InputFormat::kWav) {
    return UsageError(
        absl::StrCat("--sample-rate is for WAV; ", name, " does not say how many samples a second it has"));
  }
  if (*format == InputFormat::kNpy) return OpenArray(std::move(source), x, reading.steps);
  if (x.rank == 2) {
    return UsageError(absl::StrCat(name, " has float32 values, but ", x.name, " of the model is ",
                                   View(DataTypeName(x.type)), ", one number of each step and row: give a .npy file"));
  }
  if (x.features == 0) {
    return UsageError(
        absl::StrCat("how many values of ", name, " make one step is not known; say it with --features=N"));
  }
  if (x.rows > kMaxChunkBytes / x.features / reading.steps / static_cast<int64_t>(sizeof(float))) {
    return UsageError(absl::StrCat("--chunk=", reading.steps, " steps of ", x.rows, " rows of ", x.features,
                                   " values do not fit into one message; take fewer"));
  }
  if (*format == InputFormat::kRaw) return std::make_unique<RawSource>(std::move(source), x, reading.steps);
  auto wav = std::make_unique<WavSource>(std::move(source), x, reading.steps);
  RETURN_IF_ERROR(wav->Open(reading.sample_rate));
  return wav;
}

}  // namespace rnnserve::rnnctl
