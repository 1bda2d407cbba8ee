// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/map/product.h"
#include "engine/onednn/one_thread_team.h"
#include "engine/onednn/recurrence.h"

namespace rnnserve::map {
namespace {

using Memory = dnnl::memory;

// Rows of a call: a new number of rows would cost a new primitive, so others are made of these.
constexpr std::array<int64_t, 7> kRows = {64, 32, 16, 8, 4, 2, 1};

bool AlgorithmOf(MapFunction function, dnnl::algorithm& algorithm) {
  switch (function) {
    case MapFunction::kRelu:
      algorithm = dnnl::algorithm::eltwise_relu;
      return true;
    case MapFunction::kTanh:
      algorithm = dnnl::algorithm::eltwise_tanh;
      return true;
    case MapFunction::kSigmoid:
      algorithm = dnnl::algorithm::eltwise_logistic;
      return true;
    default:
      return false;
  }
}

// Like oneDNN's own primitives these point to its engine, so one engine serves the process.
const dnnl::engine& CpuEngine() {
  static const dnnl::engine* const engine = [] {
    onednn::CpuMultipliesBFloat16();  // limits the instructions, which oneDNN takes only before anything else
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *engine;
}

class OneDnnProduct final : public Product<float> {
 public:
  OneDnnProduct(const MapOp& op, bool one_order) : op_(op) {
    const onednn::OneThreadTeam team;
    const auto type = Memory::data_type::f32;
    const int64_t columns = op.a->size() / op.inner;
    weights_ =
        Memory({{op.inner, columns}, type, Memory::format_tag::ab}, CpuEngine(), const_cast<float*>(op.a->f32.data()));
    if (op.b != nullptr) {
      bias_ = Memory({{1, columns}, type, Memory::format_tag::ab}, CpuEngine(), const_cast<float*>(op.b->f32.data()));
    }
    for (const int64_t rows : kRows) {
      if (one_order && rows > 1) continue;
      Call call;
      call.rows = rows;
      call.x = {{rows, op.inner}, type, Memory::format_tag::ab};
      call.y = {{rows, columns}, type, Memory::format_tag::ab};
      const auto description = Describe(call);
      call.scratchpad = description.scratchpad_desc();
      call.primitive = dnnl::matmul(description);
      scratch_bytes_ = std::max(scratch_bytes_, call.scratchpad.get_size());
      calls_.push_back(std::move(call));
    }
  }

  void Run(const float* x, float* y, int64_t rows, std::byte* scratch) const override {
    const onednn::OneThreadTeam team;
    dnnl::stream stream(CpuEngine());
    const int64_t columns = op_.a->size() / op_.inner;
    for (const Call& call : calls_) {
      for (; rows >= call.rows; rows -= call.rows, x += call.rows * op_.inner, y += call.rows * columns) {
        std::unordered_map<int, Memory> arguments = {
            {DNNL_ARG_SRC, Memory(call.x, CpuEngine(), const_cast<float*>(x))},
            {DNNL_ARG_WEIGHTS, weights_},
            {DNNL_ARG_DST, Memory(call.y, CpuEngine(), y)},
            {DNNL_ARG_SCRATCHPAD, Memory(call.scratchpad, CpuEngine(), scratch)}};
        if (op_.b != nullptr) arguments.emplace(DNNL_ARG_BIAS, bias_);
        call.primitive.execute(stream, arguments);
      }
    }
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  struct Call {
    int64_t rows = 0;
    Memory::desc x, y, scratchpad;
    dnnl::matmul primitive;
  };

  dnnl::matmul::primitive_desc Describe(const Call& call) const {
    dnnl::primitive_attr attributes;
    // The library's own scratchpad belongs to the creating thread: executing elsewhere crashes (oneDNN#1385).
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
    dnnl::algorithm algorithm;
    if (AlgorithmOf(op_.function, algorithm)) {
      dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
      after.append_eltwise(algorithm, 0, 0);
#else
      after.append_eltwise(1, algorithm, 0, 0);
#endif
      attributes.set_post_ops(after);
    }
    const Memory::desc weights = weights_.get_desc();
#if DNNL_VERSION_MAJOR >= 3
    if (op_.b == nullptr) return {CpuEngine(), call.x, weights, call.y, attributes};
    return {CpuEngine(), call.x, weights, bias_.get_desc(), call.y, attributes};
#else
    if (op_.b == nullptr) return {dnnl::matmul::desc(call.x, weights, call.y), attributes, CpuEngine()};
    return {dnnl::matmul::desc(call.x, weights, bias_.get_desc(), call.y), attributes, CpuEngine()};
#endif
  }

  const MapOp& op_;
  Memory weights_, bias_;
  std::vector<Call> calls_;
  size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Product<float>> MakeOneDnnProduct(const MapOp& op, bool one_order) {
  dnnl::algorithm algorithm;
  if (op.function != MapFunction::kNone && !AlgorithmOf(op.function, algorithm)) return nullptr;
  try {
    return std::make_unique<OneDnnProduct>(op, one_order);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace rnnserve::map
