// SPDX-License-Identifier: Apache-2.0
// Weights in the layout that the primitive asks for, reordered beforehand; everything else plain.
#include <omp.h>

#include <unordered_map>

#include "tests/bench/engines/onednn_calls.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

using Tag = dnnl::memory::format_tag;

constexpr auto kInference = dnnl::prop_kind::forward_inference;
constexpr auto kForward = dnnl::rnn_direction::unidirectional_left2right;

class OneDnnPrimitive final : public TimedCell {
 public:
  OneDnnPrimitive(const Shape& shape, int threads) : shape_(shape), threads_(threads) {
    omp_set_num_threads(threads_);
    const auto layer = FloatDesc({shape.steps, shape.rows, shape.units}, Tag::tnc);
    const auto state = FloatDesc({1, 1, shape.rows, shape.units}, Tag::ldnc);
    const auto weights = Weights(Tag::any);
    const bool gru = shape.kind == CellKind::kGru, lstm = shape.kind == CellKind::kLstm;
    const auto bias = FloatDesc({1, 1, GateCount(shape.kind) + (gru ? 1 : 0), shape.units}, Tag::ldgo);
    arguments_ = {{DNNL_ARG_SRC_LAYER, calls_.Random(layer, 1)},
                  {DNNL_ARG_SRC_ITER, calls_.Random(state, 1)},
                  {DNNL_ARG_BIAS, calls_.Random(bias, 0.05f)},
                  {DNNL_ARG_DST_LAYER, calls_.Random(layer, 1)},
                  {DNNL_ARG_DST_ITER, calls_.Random(state, 1)}};
    if (lstm) {
      arguments_.insert(
          {{DNNL_ARG_SRC_ITER_C, calls_.Random(state, 1)}, {DNNL_ARG_DST_ITER_C, calls_.Random(state, 1)}});
      Finish<dnnl::lstm_forward>(Describe<dnnl::lstm_forward>(calls_.engine, kInference, kForward, layer, state, state,
                                                              weights, weights, bias, layer, state, state));
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
  dnnl::memory::desc Weights(Tag tag) const {
    return FloatDesc({1, 1, shape_.units, GateCount(shape_.kind), shape_.units}, tag);
  }
  dnnl::memory Packed(const dnnl::memory::desc& packed) { return calls_.Weights(Weights(Tag::ldigo), packed); }
  template <typename Primitive>
  void Finish(const typename Primitive::primitive_desc& description) {
    arguments_.insert({{DNNL_ARG_WEIGHTS_LAYER, Packed(description.weights_layer_desc())},
                       {DNNL_ARG_WEIGHTS_ITER, Packed(description.weights_iter_desc())}});
    primitive_ = Primitive(description);
  }

  const Shape shape_;
  const int threads_;
  OneDnnCalls calls_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCell>> MakeOneDnnPrimitive(const Shape& shape, int threads) {
  return std::make_unique<OneDnnPrimitive>(shape, threads);
}

}  // namespace rnnserve::bench
