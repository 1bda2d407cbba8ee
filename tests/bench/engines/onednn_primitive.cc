// SPDX-License-Identifier: Apache-2.0
// Weights in the layout that the primitive asks for, reordered beforehand; everything else plain.
#include <omp.h>

#include <random>
#include <unordered_map>

#include "dnnl.hpp"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

using Tag = dnnl::memory::format_tag;

constexpr auto kInference = dnnl::prop_kind::forward_inference;
constexpr auto kForward = dnnl::rnn_direction::unidirectional_left2right;

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments...);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), engine);
#endif
}

class OneDnnPrimitive final : public TimedCell {
 public:
  OneDnnPrimitive(const Shape& shape, int threads) : shape_(shape), threads_(threads) {
    omp_set_num_threads(threads_);
    const auto layer = Desc({shape.steps, shape.rows, shape.units}, Tag::tnc);
    const auto state = Desc({1, 1, shape.rows, shape.units}, Tag::ldnc);
    const auto weights = Weights(Tag::any);
    const bool gru = shape.kind == CellKind::kGru, lstm = shape.kind == CellKind::kLstm;
    const auto bias = Desc({1, 1, GateCount(shape.kind) + (gru ? 1 : 0), shape.units}, Tag::ldgo);
    arguments_ = {{DNNL_ARG_SRC_LAYER, Random(layer, 1)},
                  {DNNL_ARG_SRC_ITER, Random(state, 1)},
                  {DNNL_ARG_BIAS, Random(bias, 0.05f)},
                  {DNNL_ARG_DST_LAYER, Random(layer, 1)},
                  {DNNL_ARG_DST_ITER, Random(state, 1)}};
    if (lstm) {
      arguments_.insert({{DNNL_ARG_SRC_ITER_C, Random(state, 1)}, {DNNL_ARG_DST_ITER_C, Random(state, 1)}});
      Finish<dnnl::lstm_forward>(Describe<dnnl::lstm_forward>(engine_, kInference, kForward, layer, state, state,
                                                              weights, weights, bias, layer, state, state));
    } else if (gru) {
      Finish<dnnl::lbr_gru_forward>(Describe<dnnl::lbr_gru_forward>(engine_, kInference, kForward, layer, state,
                                                                    weights, weights, bias, layer, state));
    } else {
      Finish<dnnl::vanilla_rnn_forward>(
          Describe<dnnl::vanilla_rnn_forward>(engine_, kInference, dnnl::algorithm::eltwise_tanh, kForward, layer,
                                              state, weights, weights, bias, layer, state));
    }
  }

  void Run() override {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::memory::desc Desc(const dnnl::memory::dims& dims, Tag tag) const {
    return {dims, dnnl::memory::data_type::f32, tag};
  }
  dnnl::memory::desc Weights(Tag tag) const {
    return Desc({1, 1, shape_.units, GateCount(shape_.kind), shape_.units}, tag);
  }
  dnnl::memory Random(const dnnl::memory::desc& desc, float bound) {
    dnnl::memory memory(desc, engine_);
    std::uniform_real_distribution<float> uniform(-bound, bound);
    auto* values = static_cast<float*>(memory.get_data_handle());
    for (size_t k = 0; k < desc.get_size() / sizeof(float); ++k) values[k] = uniform(random_);
    return memory;
  }
  dnnl::memory Packed(const dnnl::memory::desc& packed) {
    dnnl::memory source = Random(Weights(Tag::ldigo), 0.05f);
    dnnl::memory target(packed, engine_);
    dnnl::reorder(source, target).execute(stream_, source, target);
    stream_.wait();
    return target;
  }
  template <typename Primitive>
  void Finish(const typename Primitive::primitive_desc& description) {
    arguments_.insert({{DNNL_ARG_WEIGHTS_LAYER, Packed(description.weights_layer_desc())},
                       {DNNL_ARG_WEIGHTS_ITER, Packed(description.weights_iter_desc())}});
    primitive_ = Primitive(description);
  }

  const Shape shape_;
  const int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::mt19937 random_{1};
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCell>> MakeOneDnnPrimitive(const Shape& shape, int threads) {
  return std::make_unique<OneDnnPrimitive>(shape, threads);
}

}  // namespace rnnserve::bench
