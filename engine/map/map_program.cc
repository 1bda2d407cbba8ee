// SPDX-License-Identifier: Apache-2.0
#include "engine/map/map_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "engine/float16.h"
#include "engine/map/functions.h"
#include "engine/map/product.h"

namespace rnnserve {
namespace {

// Steps of rows that are computed together, and what their values may take unless one step takes more.
constexpr int64_t kBlock = 64;
constexpr int64_t kBlockBytes = int64_t{1} << 22;
constexpr size_t kLine = 64;

struct Free {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kLine}); }
};
using Memory = std::unique_ptr<std::byte, Free>;

// Room for a block, made when it is first needed and kept: it never grows.
class MapWorkspace : public Workspace {
 public:
  Memory memory;
};

template <typename T>
class MapProgram final : public Program {
 public:
  MapProgram(MapPtr map, const EngineOptions& options) : map_(std::move(map)) {
    int64_t bytes = 0;
    for (const MapValue& value : map_->values) bytes += value.width * 8;
    block_ = std::clamp<int64_t>(kBlockBytes / std::max<int64_t>(1, bytes), 1, kBlock);
    for (const MapValue& value : map_->values) offsets_.push_back(Take(static_cast<size_t>(block_ * value.width) * 8));
    size_t scratch = 0;
    for (const MapOp& op : map_->ops) {
      std::unique_ptr<map::Product<T>>& product = products_.emplace_back();
      if (op.kind == MapOpKind::kProduct && op.inner > 0) {
        product = map::MakeProduct<T>(op, options.deterministic);
        scratch = std::max(scratch, product->scratch_bytes());
        packed_bytes_ += product->packed_bytes();
      } else if (op.kind == MapOpKind::kTopK) {
        scratch = std::max(scratch, static_cast<size_t>(op.inner) * sizeof(int64_t));
      }
    }
    scratch_ = Take(scratch);
    Need();
  }

  std::unique_ptr<State> NewState() const override {
    auto row = std::make_unique<MapRow>();
    row->in.resize(map_->inputs.size());
    row->out.resize(map_->outputs.size());
    return row;
  }
  void ImportState(DataType, const std::byte*, const std::byte*, State&) const override {}
  void ExportState(const State&, DataType, std::byte*, std::byte*) const override {}
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<MapWorkspace>(); }
  int64_t packed_bytes() const override { return packed_bytes_ + map_->WeightBytes(); }

  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
    Memory& memory = static_cast<MapWorkspace&>(workspace).memory;
    if (memory == nullptr) memory.reset(static_cast<std::byte*>(::operator new (bytes_, std::align_val_t{kLine})));
    const Block block = {memory.get(), *this};
    std::array<Step, kBlock> steps;
    int64_t count = 0;
    const auto run = [&] {
      block.Run({steps.data(), static_cast<size_t>(count)});
      count = 0;
    };
    for (const SequenceSlice& slice : slices) {
      const MapRow& row = static_cast<const MapRow&>(*slice.after);
      for (int64_t k = 0; k < slice.steps; ++k) {
        steps[static_cast<size_t>(count++)] = {&row, row.done + k};
        if (count == block_) run();
      }
    }
    if (count > 0) run();
    for (const SequenceSlice& slice : slices) static_cast<MapRow&>(*slice.after).done += slice.steps;
    return absl::OkStatus();
  }

 private:
  struct Step {
    const MapRow* row;
    int64_t step;
  };

  // The values of some steps, while they are computed.
  struct Block {
    std::byte* memory;
    const MapProgram& program;

    T* Numbers(int value) const { return reinterpret_cast<T*>(memory + program.offsets_[static_cast<size_t>(value)]); }
    int64_t* Integers(int value) const {
      return reinterpret_cast<int64_t*>(memory + program.offsets_[static_cast<size_t>(value)]);
    }
    const MapValue& Value(int value) const { return program.map_->values[static_cast<size_t>(value)]; }

    void Run(std::span<const Step> steps) const {
      const Map& map = *program.map_;
      uint64_t wanted = 0;
      for (const Step& step : steps) {
        for (size_t k = 0; k < map.outputs.size(); ++k) wanted |= step.row->out[k].first == nullptr ? 0 : OutputBit(k);
      }
      for (size_t k = 0; k < map.inputs.size(); ++k) Read(map.inputs[k], k, steps);
      for (size_t k = 0; k < map.ops.size(); ++k) {
        if ((program.needed_by_[k] & wanted) == 0) continue;
        Compute(map.ops[k], program.products_[k].get(), static_cast<int64_t>(steps.size()));
      }
      for (size_t k = 0; k < map.outputs.size(); ++k) Write(map.outputs[k], k, steps);
    }

    void Read(const MapPort& port, size_t k, std::span<const Step> steps) const;
    void Write(const MapPort& port, size_t k, std::span<const Step> steps) const;
    void Compute(const MapOp& op, const map::Product<T>* product, int64_t rows) const;
    void ComputeGroups(const MapOp& op, int64_t groups) const;
    void Lookup(const MapOp& op, int64_t rows) const;
    void Concat(const MapOp& op, int64_t rows) const;
    void Select(const MapOp& op, int64_t rows) const;
  };

  // Outputs beyond the last bit share it.
  static uint64_t OutputBit(size_t output) { return uint64_t{1} << std::min<size_t>(output, 63); }

  // Which outputs each operator is for: what no row wants is not computed.
  void Need() {
    std::vector<uint64_t> values(map_->values.size());
    for (size_t k = 0; k < map_->outputs.size(); ++k) {
      values[static_cast<size_t>(map_->outputs[k].value)] |= OutputBit(k);
    }
    needed_by_.resize(map_->ops.size());
    for (size_t k = map_->ops.size(); k-- > 0;) {
      for (const int out : map_->ops[k].out) needed_by_[k] |= values[static_cast<size_t>(out)];
      for (const int in : map_->ops[k].in) values[static_cast<size_t>(in)] |= needed_by_[k];
    }
  }

  size_t Take(size_t bytes) {
    const size_t at = bytes_;
    bytes_ += (bytes + kLine - 1) / kLine * kLine;
    return at;
  }

  const MapPtr map_;
  int64_t block_ = 1;
  std::vector<size_t> offsets_;  // of each value's memory
  size_t scratch_ = 0;           // likewise
  size_t bytes_ = 0;
  std::vector<std::unique_ptr<map::Product<T>>> products_;  // null where the operator is none
  std::vector<uint64_t> needed_by_;                         // of each operator: OutputBit of outputs
  int64_t packed_bytes_ = 0;
};

int64_t ReadInteger(DataType type, const std::byte* at) {
  if (type == DataType::kInt32) {
    int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  int64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void WriteInteger(DataType type, int64_t value, std::byte* at) {
  if (type == DataType::kInt32) {
    const auto narrow = static_cast<int32_t>(value);
    std::memcpy(at, &narrow, sizeof narrow);
  } else {
    std::memcpy(at, &value, sizeof value);
  }
}

constexpr DataType TypeOf(float) { return DataType::kFloat; }
constexpr DataType TypeOf(double) { return DataType::kDouble; }

// Between a stream and a value; of equal types bytes.
void Convert(DataType from, const std::byte* source, DataType to, std::byte* target, int64_t count) {
  if (from == to) {
    std::memcpy(target, source, static_cast<size_t>(count) * ByteSize(from));
  } else {
    ConvertElements(from, source, to, target, static_cast<size_t>(count));
  }
}

template <typename T>
void MapProgram<T>::Block::Read(const MapPort& port, size_t k, std::span<const Step> steps) const {
  const MapValue& value = Value(port.value);
  for (size_t row = 0; row < steps.size(); ++row) {
    const MapRow::In& in = steps[row].row->in[k];
    const int64_t width = value.width / in.groups;
    const std::byte* first = in.first + steps[row].step * in.step;
    if (width == 1 && port.type == TypeOf(T{})) {  // numbers of several steps side by side
      T* to = Numbers(port.value) + static_cast<int64_t>(row) * value.width;
      for (int64_t j = 0; j < in.groups; ++j) std::memcpy(to + j, first + j * in.group, sizeof(T));
      continue;
    }
    for (int64_t group = 0; group < in.groups; ++group) {
      const std::byte* from = first + group * in.group;
      const int64_t offset = static_cast<int64_t>(row) * value.width + group * width;
      if (!value.is_integer) {
        Convert(port.type, from, TypeOf(T{}), reinterpret_cast<std::byte*>(Numbers(port.value) + offset), width);
        continue;
      }
      for (int64_t j = 0; j < width; ++j) {
        Integers(port.value)[offset + j] = ReadInteger(port.type, from + j * static_cast<int64_t>(ByteSize(port.type)));
      }
    }
  }
}

// One more step into what the steps before have left.
template <typename T>
void Accumulate(const MapRow::Out& out, int64_t step, const T* x, int64_t count) {
  const OverTime over_time = out.over_time;
  T* sum = reinterpret_cast<T*>(out.first);  // of the core's own memory: aligned
  for (int64_t k = 0; k < count; ++k) {
    if (step + out.begun == 0) {
      sum[k] = x[k];
    } else if (over_time == OverTime::kMean) {
      const T before = static_cast<T>(step + out.begun), now = before + 1, mean = sum[k] + (x[k] - sum[k]) / now;
      sum[k] = std::isfinite(mean) ? mean : sum[k] * (before / now) + x[k] / now;  // infinite, or too far from the mean
    } else if (over_time == OverTime::kSum) {
      sum[k] += x[k];
    } else {
      const auto function = over_time == OverTime::kLargest ? MapFunction::kMaximum : MapFunction::kMinimum;
      map::Combine(function, sum + k, x + k, sum + k, 1);
    }
  }
}

template <typename T>
void MapProgram<T>::Block::Write(const MapPort& port, size_t k, std::span<const Step> steps) const {
  const MapValue& value = Value(port.value);
  const auto size = static_cast<int64_t>(ByteSize(port.type));
  for (size_t row = 0; row < steps.size(); ++row) {
    const MapRow::Out& out = steps[row].row->out[k];
    const int64_t step = steps[row].step, offset = static_cast<int64_t>(row) * value.width;
    if (out.first == nullptr || (out.over_time == OverTime::kFirst && step > 0)) continue;
    if (out.over_time >= OverTime::kSum) {
      Accumulate(out, step, Numbers(port.value) + offset, value.width);
      continue;
    }
    const int64_t width = value.width / out.groups;
    for (int64_t group = 0; group < out.groups; ++group) {
      const int64_t from = offset + group * width;
      std::byte* to = out.first + step * out.step + group * out.group;
      if (!value.is_integer) {
        Convert(TypeOf(T{}), reinterpret_cast<const std::byte*>(Numbers(port.value) + from), port.type, to, width);
        continue;
      }
      for (int64_t j = 0; j < width; ++j) WriteInteger(port.type, Integers(port.value)[from + j], to + j * size);
    }
  }
}

template <typename T>
void MapProgram<T>::Block::Lookup(const MapOp& op, int64_t rows) const {
  const int64_t width = Value(op.out[0]).width, per_row = Value(op.in[0]).width, each = width / per_row;
  const int64_t entries = op.a->size() / each;
  for (int64_t k = 0; k < rows * per_row; ++k) {
    int64_t place = Integers(op.in[0])[k];
    if (place < 0) place += entries;
    // Requests are checked before they come here.
    T* to = Numbers(op.out[0]) + k * each;
    if (place < 0 || place >= entries) {
      std::fill_n(to, each, T{0});
    } else {
      std::copy_n(op.a->template of<T>().data() + place * each, each, to);
    }
  }
}

template <typename T>
void MapProgram<T>::Block::Concat(const MapOp& op, int64_t rows) const {
  const int64_t width = Value(op.out[0]).width;
  // `inner` numbers of the output, made of a part of each input, `width / inner` times.
  const int64_t times = rows * width / op.inner;
  int64_t at = 0;
  for (const int in : op.in) {
    const int64_t part = Value(in).width * op.inner / width;
    for (int64_t k = 0; k < times; ++k) {
      if (Value(op.out[0]).is_integer) {
        std::copy_n(Integers(in) + k * part, part, Integers(op.out[0]) + k * op.inner + at);
      } else {
        std::copy_n(Numbers(in) + k * part, part, Numbers(op.out[0]) + k * op.inner + at);
      }
    }
    at += part;
  }
}

template <typename T>
void MapProgram<T>::Block::Select(const MapOp& op, int64_t rows) const {
  const int64_t from = Value(op.in[0]).width, width = Value(op.out[0]).width;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < width; ++k) {
      const int64_t source = row * from + op.places[static_cast<size_t>(k)], target = row * width + k;
      if (Value(op.in[0]).is_integer) {
        Integers(op.out[0])[target] = Integers(op.in[0])[source];
      } else {
        Numbers(op.out[0])[target] = Numbers(op.in[0])[source];
      }
    }
  }
}

// Operators that go along the last axis, group by group.
template <typename T>
void MapProgram<T>::Block::ComputeGroups(const MapOp& op, int64_t groups) const {
  const T* x = Numbers(op.in[0]);
  for (int64_t group = 0; group < groups; ++group, x += op.inner) {
    switch (op.kind) {
      case MapOpKind::kReduce:
        Numbers(op.out[0])[group] = map::Reduce(op.function, x, op.inner);
        break;
      case MapOpKind::kArgMax:
        Integers(op.out[0])[group] = map::ArgMax(x, op.inner, op.reversed);
        break;
      case MapOpKind::kTopK:
        map::TopK(x, op.inner, op.count, reinterpret_cast<int64_t*>(memory + program.scratch_),
                  Numbers(op.out[0]) + group * op.count, Integers(op.out[1]) + group * op.count);
        break;
      case MapOpKind::kNormalize:
        map::Normalize(x, Numbers(op.out[0]) + group * op.inner, op.inner, op.alpha, op.a->template of<T>().data(),
                       op.b == nullptr ? nullptr : op.b->template of<T>().data());
        break;
      default:
        map::Softmax(x, Numbers(op.out[0]) + group * op.inner, op.inner, op.kind == MapOpKind::kLogSoftmax);
    }
  }
}

template <typename T>
void MapProgram<T>::Block::Compute(const MapOp& op, const map::Product<T>* product, int64_t rows) const {
  const int64_t width = Value(op.in[0]).width, count = rows * width;
  switch (op.kind) {
    case MapOpKind::kLookup:
      return Lookup(op, rows);
    case MapOpKind::kProduct:
      return product->Run(Numbers(op.in[0]), Numbers(op.out[0]), count / op.inner, memory + program.scratch_);
    case MapOpKind::kUnary:
      return map::Apply(op.function, op.alpha, op.beta, Numbers(op.in[0]), Numbers(op.out[0]), count);
    case MapOpKind::kBinary:
      return map::Combine(op.function, Numbers(op.in[0]), Numbers(op.in[1]), Numbers(op.out[0]), count);
    case MapOpKind::kConstant:
      for (int64_t row = 0; row < rows; ++row) {
        const T* in = Numbers(op.in[0]) + row * width;
        const T* constant = op.a->template of<T>().data();
        map::Combine(op.function, op.reversed ? constant : in, op.reversed ? in : constant,
                     Numbers(op.out[0]) + row * width, width);
      }
      return;
    case MapOpKind::kConcat:
      return Concat(op, rows);
    case MapOpKind::kSelect:
      return Select(op, rows);
    case MapOpKind::kConvert:
      for (int64_t k = 0; k < count; ++k) {
        if (Value(op.in[0]).is_integer) {
          Numbers(op.out[0])[k] = static_cast<T>(Integers(op.in[0])[k]);
        } else {
          // Of what fits into an int64; else the least, as x86 does.
          const T number = Numbers(op.in[0])[k];
          constexpr T kEnd = static_cast<T>(9223372036854775808.0);
          Integers(op.out[0])[k] =
              number >= -kEnd && number < kEnd ? static_cast<int64_t>(number) : std::numeric_limits<int64_t>::min();
        }
      }
      return;
    default:
      return ComputeGroups(op, count / op.inner);
  }
}

}  // namespace

ProgramPtr CompileMap(MapPtr map, const EngineOptions& options) {
  if (map->compute_type == DataType::kDouble) return std::make_shared<MapProgram<double>>(std::move(map), options);
  return std::make_shared<MapProgram<float>>(std::move(map), options);
}

}  // namespace rnnserve
