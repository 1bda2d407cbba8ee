// SPDX-License-Identifier: Apache-2.0
// Weights in the layout that the primitive asks for, reordered beforehand; everything else plain. With bfloat16 x, h, W
// and R are of that type, biases and C of float32.
#include <omp.h>

#include <unordered_map>

#include "tests/bench/engines/onednn_calls.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

constexpr auto kInference = dnnl::prop_kind::forward_inference;
constexpr auto kForward = dnnl::rnn_direction::unidirectional_left2right;

class OneDnnPrimitive final : public TimedCell {
 public:
  OneDnnPrimitive(const Shape& shape, int threads, Type type) : shape_(shape), threads_(threads), type_(type) {
    omp_set_num_threads(threads_);
    const dnnl::memory::dims layer_dims{shape.steps, shape.rows, shape.units},
        state_dims{1, 1, shape.rows, shape.units};
    const auto plain_layer = FloatDesc(layer_dims, Tag::tnc), cell_state = FloatDesc(state_dims, Tag::ldnc);
    const dnnl::memory::desc layer(layer_dims, type_, Tag::tnc), state(state_dims, type_, Tag::ldnc);
    const dnnl::memory::desc weights(WeightDims(), type_, Tag::any);
    const bool gru = shape.kind == CellKind::kGru, lstm = shape.kind == CellKind::kLstm;
    const auto bias = FloatDesc({1, 1, GateCount(shape.kind) + (gru ? 1 : 0), shape.units}, Tag::ldgo);
    arguments_ = {{DNNL_ARG_SRC_LAYER, calls_.Reordered(plain_layer, layer, 1)},
                  {DNNL_ARG_SRC_ITER, calls_.Reordered(cell_state, state, 1)},
                  {DNNL_ARG_BIAS, calls_.Random(bias, 0.05f)},
                  {DNNL_ARG_DST_LAYER, calls_.Reordered(plain_layer, layer, 1)},
                  {DNNL_ARG_DST_ITER, calls_.Reordered(cell_state, state, 1)}};
    if (lstm) {
      arguments_.insert(
          {{DNNL_ARG_SRC_ITER_C, calls_.Random(cell_state, 1)}, {DNNL_ARG_DST_ITER_C, calls_.Random(cell_state, 1)}});
      Finish<dnnl::lstm_forward>(Describe<dnnl::lstm_forward>(calls_.engine, kInference, kForward, layer, state,
                                                              cell_state, weights, weights, bias, layer, state,
                                                              cell_state));
    } else if (gru) {
      Finish<dnnl::lbr_gru_forward>(Describe<dnnl::lbr_gru_forward>(calls_.engine, kInference, kForward, layer, state,
                                                                    weights, weights, bias, layer, state));
    } else {
      Finish<dnnl::vanilla_rnn_forward>(
          Describe<dnnl::vanilla_rnn_forward>(calls_.engine, kInference, dnnl::algorithm::eltwise_tanh, kForward, layer,
                                              state, weights, weights, bias, layer, state));
    }
  }

  void Run() override {
    primitive_.execute(calls_.stream, arguments_);
    calls_.stream.wait();
  }

 private:
  dnnl::memory::dims WeightDims() const { return {1, 1, shape_.units, GateCount(shape_.kind), shape_.units}; }
  dnnl::memory Packed(const dnnl::memory::desc& packed) {
    return calls_.Reordered(FloatDesc(WeightDims(), Tag::ldigo), packed, 0.05f);
  }
  template <typename Primitive>
  void Finish(const typename Primitive::primitive_desc& description) {
    arguments_.insert({{DNNL_ARG_WEIGHTS_LAYER, Packed(description.weights_layer_desc())},
                       {DNNL_ARG_WEIGHTS_ITER, Packed(description.weights_iter_desc())}});
    primitive_ = Primitive(description);
  }

  const Shape shape_;
  const int threads_;
  const Type type_;
  OneDnnCalls calls_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCell>> MakeOneDnnPrimitive(const Shape& shape, int threads, bool bfloat16) {
  try {
    return std::make_unique<OneDnnPrimitive>(shape, threads, bfloat16 ? Type::bf16 : Type::f32);
  } catch (const dnnl::error& error) {
    if (!bfloat16) throw;  // without AVX-512 there is no bfloat16
    return absl::UnimplementedError(error.message);
  }
}

}  // namespace rnnserve::bench
