// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/rnn_gates.h"

#include <algorithm>

#include "engine/cpu/activations.h"

namespace rnnserve::cpu {
namespace {

template <typename T>
class RnnStep : public RecurrentStep<T> {
 public:
  explicit RnnStep(const Cell& cell)
      : r_(cell.weights<T>().r.data(), 1, static_cast<size_t>(cell.spec().hidden_size),
           static_cast<size_t>(cell.spec().hidden_size)),
        bias_(SumBiases<T>(cell, 1)),
        f_(cell.spec().activations[0], cell.spec().clip) {}

  size_t gate_columns() const override { return r_.columns(); }
  const T* input_bias() const override { return bias_.data(); }
  size_t packed_bytes() const override { return r_.bytes() + bias_.size() * sizeof(T); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    Multiply<T>(rows.count, {rows.h.data, rows.h.stride}, r_, nullptr, rows.gates, team);
    ForRows(rows.count, r_.columns(), team, [&](size_t row) {
      T* state = rows.gates.data + row * rows.gates.stride;
      f_.Apply(state, r_.columns());
      std::copy_n(state, r_.columns(), rows.h.data + row * rows.h.stride);
    });
  }

 private:
  PackedMatrix<T> r_;
  AlignedBuffer<T> bias_;
  Stage<T> f_;
};

}  // namespace

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeRnnStep(const Cell& cell) {
  return std::make_unique<RnnStep<T>>(cell);
}

template std::unique_ptr<const RecurrentStep<float>> MakeRnnStep(const Cell&);
template std::unique_ptr<const RecurrentStep<double>> MakeRnnStep(const Cell&);

}  // namespace rnnserve::cpu
