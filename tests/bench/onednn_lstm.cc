// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/onednn_lstm.h"

#include <omp.h>

#include <random>
#include <unordered_map>

#include "dnnl.hpp"

namespace rnnserve {

using Tag = dnnl::memory::format_tag;

struct OneDnnLstm::Parts {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::lstm_forward primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::mt19937 random{1};

  dnnl::memory::desc Desc(const dnnl::memory::dims& dims, Tag tag) const {
    return {dims, dnnl::memory::data_type::f32, tag};
  }
  dnnl::memory Random(const dnnl::memory::desc& desc, float bound) {
    dnnl::memory memory(desc, engine);
    std::uniform_real_distribution<float> uniform(-bound, bound);
    auto* values = static_cast<float*>(memory.get_data_handle());
    for (size_t k = 0; k < desc.get_size() / sizeof(float); ++k) values[k] = uniform(random);
    return memory;
  }
  dnnl::memory Packed(const dnnl::memory::desc& plain, const dnnl::memory::desc& packed, float bound) {
    dnnl::memory source = Random(plain, bound);
    dnnl::memory target(packed, engine);
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
    return target;
  }
};

OneDnnLstm::OneDnnLstm(int64_t steps, int64_t rows, int64_t units) : parts_(std::make_unique<Parts>()) {
  omp_set_num_threads(1);
  Parts& p = *parts_;
  const auto layer = p.Desc({steps, rows, units}, Tag::tnc);
  const auto state = p.Desc({1, 1, rows, units}, Tag::ldnc);
  const auto weights = p.Desc({1, 1, units, 4, units}, Tag::any);
  const auto bias = p.Desc({1, 1, 4, units}, Tag::ldgo);
  const dnnl::lstm_forward::desc desc(dnnl::prop_kind::forward_inference,
                                      dnnl::rnn_direction::unidirectional_left2right, layer, state, state, weights,
                                      weights, bias, layer, state, state);
  const dnnl::lstm_forward::primitive_desc primitive_desc(desc, p.engine);
  const auto plain = p.Desc({1, 1, units, 4, units}, Tag::ldigo);
  p.primitive = dnnl::lstm_forward(primitive_desc);
  p.arguments = {{DNNL_ARG_SRC_LAYER, p.Random(layer, 1)},
                 {DNNL_ARG_SRC_ITER, p.Random(state, 1)},
                 {DNNL_ARG_SRC_ITER_C, p.Random(state, 1)},
                 {DNNL_ARG_WEIGHTS_LAYER, p.Packed(plain, primitive_desc.weights_layer_desc(), 0.05f)},
                 {DNNL_ARG_WEIGHTS_ITER, p.Packed(plain, primitive_desc.weights_iter_desc(), 0.05f)},
                 {DNNL_ARG_BIAS, p.Random(bias, 0.05f)},
                 {DNNL_ARG_DST_LAYER, p.Random(layer, 1)},
                 {DNNL_ARG_DST_ITER, p.Random(state, 1)},
                 {DNNL_ARG_DST_ITER_C, p.Random(state, 1)}};
}

OneDnnLstm::~OneDnnLstm() = default;

void OneDnnLstm::Run() {
  parts_->primitive.execute(parts_->stream, parts_->arguments);
  parts_->stream.wait();
}

}  // namespace rnnserve
