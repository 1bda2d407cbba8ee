// SPDX-License-Identifier: Apache-2.0
// Random cells and sequences, and how tests of this folder run them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "engine/cell.h"
#include "engine/engine.h"
#include "engine/float16.h"

namespace rnnserve::cpu {

inline std::vector<double> RandomValues(std::mt19937& random, size_t count, double bound) {
  std::uniform_real_distribution<double> uniform(-bound, bound);
  std::vector<double> values(count);
  for (double& value : values) value = uniform(random);
  return values;
}

inline std::vector<std::byte> Encode(DataType type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * ByteSize(type));
  ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(values.data()), type, bytes.data(),
                  values.size());
  return bytes;
}

inline std::vector<double> Decode(DataType type, const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / ByteSize(type));
  ConvertElements(type, bytes.data(), DataType::kDouble, reinterpret_cast<std::byte*>(values.data()), values.size());
  return values;
}

template <typename T>
CellWeights<T> RandomWeights(const CellSpec& spec, std::mt19937& random) {
  const auto units = static_cast<size_t>(spec.hidden_size);
  const size_t gates = static_cast<size_t>(GateCount(spec.kind)) * units;
  const double bound = 1.0 / std::sqrt(static_cast<double>(spec.hidden_size));
  const auto draw = [&](size_t count) {
    const std::vector<double> exact = RandomValues(random, count, bound);
    // Weights came in the data type.
    const std::vector<double> rounded = Decode(spec.data_type, Encode(spec.data_type, exact));
    return std::vector<T>(rounded.begin(), rounded.end());
  };
  CellWeights<T> weights;
  weights.w = draw(gates * static_cast<size_t>(spec.input_size));
  weights.r = draw(gates * units);
  weights.wb = draw(gates);
  weights.rb = draw(gates);
  weights.p = draw(spec.has_peephole ? 3 * units : 0);
  return weights;
}

inline CellPtr RandomCell(const CellSpec& spec, uint32_t seed) {
  std::mt19937 random(seed);
  if (spec.data_type == DataType::kDouble) {
    return std::make_shared<Cell>(spec, RandomWeights<double>(spec, random));
  }
  return std::make_shared<Cell>(spec, RandomWeights<float>(spec, random));
}

inline CellSpec DefaultSpec(CellKind kind, DataType type, int64_t inputs, int64_t units) {
  CellSpec spec;
  spec.kind = kind;
  spec.data_type = type;
  spec.input_size = inputs;
  spec.hidden_size = units;
  const Activation sigmoid{ActivationKind::kSigmoid, 0, 0};
  const Activation tanh{ActivationKind::kTanh, 0, 0};
  if (kind == CellKind::kLstm) spec.activations = {sigmoid, tanh, tanh};
  if (kind == CellKind::kGru) spec.activations = {sigmoid, tanh, {}};
  if (kind == CellKind::kRnn) spec.activations = {tanh, {}, {}};
  return spec;
}

// One sequence with buffers of its own. The bytes begin one past an aligned address: engines promise to cope.
struct Sequence {
  int64_t steps = 0;
  std::vector<std::byte> x;
  std::vector<std::byte> y;
  std::unique_ptr<State> state;
};

class Sequences {
 public:
  Sequences(const Program& program, const CellSpec& spec) : program_(program), spec_(spec) {}

  void Add(int64_t steps, uint32_t seed) {
    std::mt19937 random(seed);
    const std::vector<double> x = RandomValues(random, static_cast<size_t>(steps * spec_.input_size), 1.0);
    const DataType state_type = ComputeType(spec_.data_type);
    const auto h = Encode(state_type, RandomValues(random, static_cast<size_t>(spec_.hidden_size), 0.5));
    const auto c = Encode(state_type, RandomValues(random, static_cast<size_t>(spec_.hidden_size), 0.5));
    Sequence sequence;
    sequence.steps = steps;
    sequence.x = Encode(spec_.data_type, x);
    sequence.x.insert(sequence.x.begin(), std::byte{0});
    sequence.y.resize(1 + static_cast<size_t>(steps * spec_.hidden_size) * ByteSize(spec_.data_type));
    sequence.state = program_.NewState();
    program_.ImportState(state_type, h.data(), c.data(), *sequence.state);
    sequences_.push_back(std::move(sequence));
  }

  // Steps first .. first + count of sequence k; its state moves on.
  SequenceSlice Slice(size_t k, int64_t first, int64_t count) {
    Sequence& sequence = sequences_[k];
    SequenceSlice slice;
    slice.x_stride = spec_.input_size * static_cast<int64_t>(ByteSize(spec_.data_type));
    slice.y_stride = spec_.hidden_size * static_cast<int64_t>(ByteSize(spec_.data_type));
    slice.x = sequence.x.data() + 1 + first * slice.x_stride;
    slice.y = sequence.y.data() + 1 + first * slice.y_stride;
    slice.steps = count;
    slice.before = sequence.state.get();
    slice.after = sequence.state.get();
    return slice;
  }

  std::vector<SequenceSlice> All() {
    std::vector<SequenceSlice> slices;
    for (size_t k = 0; k < sequences_.size(); ++k) slices.push_back(Slice(k, 0, sequences_[k].steps));
    return slices;
  }

  size_t size() const { return sequences_.size(); }
  int64_t steps(size_t k) const { return sequences_[k].steps; }
  Sequence& at(size_t k) { return sequences_[k]; }

  std::vector<double> Y(size_t k) const {
    const std::vector<std::byte>& y = sequences_[k].y;
    return Decode(spec_.data_type, std::vector<std::byte>(y.begin() + 1, y.end()));
  }

  // h, then c of an LSTM, in the compute type's own bits.
  std::vector<std::byte> FinalStateBytes(size_t k) const {
    const DataType type = ComputeType(spec_.data_type);
    const size_t bytes = static_cast<size_t>(spec_.hidden_size) * ByteSize(type);
    const bool has_c = spec_.kind == CellKind::kLstm;
    std::vector<std::byte> state(has_c ? 2 * bytes : bytes);
    program_.ExportState(*sequences_[k].state, type, state.data(), has_c ? state.data() + bytes : nullptr);
    return state;
  }

  std::vector<double> FinalState(size_t k) const { return Decode(ComputeType(spec_.data_type), FinalStateBytes(k)); }

  // Everything that came out, bit by bit.
  std::vector<std::byte> Results(size_t k) const {
    std::vector<std::byte> results = FinalStateBytes(k);
    results.insert(results.end(), sequences_[k].y.begin(), sequences_[k].y.end());
    return results;
  }

 private:
  const Program& program_;
  CellSpec spec_;
  std::vector<Sequence> sequences_;
};

}  // namespace rnnserve::cpu
