// SPDX-License-Identifier: Apache-2.0
// What the contestants that call oneDNN share: descriptions in the words of oneDNN 2.6 or 3, and random numbers.
#pragma once

#include <random>

#include "dnnl.hpp"

namespace rnnserve::bench {

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments...);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), engine);
#endif
}

inline dnnl::memory::desc FloatDesc(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

// An engine, its stream and memory of it.
class OneDnnCalls {
 public:
  dnnl::memory Random(const dnnl::memory::desc& desc, float bound) {
    dnnl::memory memory(desc, engine);
    std::uniform_real_distribution<float> uniform(-bound, bound);
    auto* values = static_cast<float*>(memory.get_data_handle());
    for (size_t k = 0; k < desc.get_size() / sizeof(float); ++k) values[k] = uniform(random_);
    return memory;
  }
  // Random numbers of float32 in the layout `plain`, in the layout and type of `wanted`.
  dnnl::memory Reordered(const dnnl::memory::desc& plain, const dnnl::memory::desc& wanted, float bound) {
    dnnl::memory source = Random(plain, bound);
    dnnl::memory target(wanted, engine);
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
    return target;
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

 private:
  std::mt19937 random_{1};
};

}  // namespace rnnserve::bench
