// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/recurrence.h"

#include "engine/instruction_set.h"

namespace rnnserve::onednn {
namespace {

using Tag = Memory::format_tag;

constexpr auto kInference = dnnl::prop_kind::forward_inference;
constexpr auto kForward = dnnl::rnn_direction::unidirectional_left2right;

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  // The library's own scratchpad belongs to the creating thread: executing elsewhere crashes (oneDNN#1385).
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Whatever the environment says: float32 is rounded only where the request allows it.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, arguments..., Attributes());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), Attributes(), engine);
#endif
}

// Takes the slope of an RNN's relu last in version 3 but after the flags in version 2.
dnnl::vanilla_rnn_forward::primitive_desc DescribeRnn(const dnnl::engine& engine, const Activation& f,
                                                      const Recurrence& r, const Memory::desc& w,
                                                      const Memory::desc& r_weights) {
  const auto function = f.kind == ActivationKind::kSigmoid ? dnnl::algorithm::eltwise_logistic
                        : f.kind == ActivationKind::kTanh  ? dnnl::algorithm::eltwise_tanh
                                                           : dnnl::algorithm::eltwise_relu;
  const auto slope = static_cast<float>(f.kind == ActivationKind::kLeakyRelu ? f.alpha : 0);
#if DNNL_VERSION_MAJOR >= 3
  return Describe<dnnl::vanilla_rnn_forward>(engine, kInference, function, kForward, r.x, r.h, w, r_weights, r.bias,
                                             r.y, r.h, slope);
#else
  return Describe<dnnl::vanilla_rnn_forward>(engine, kInference, function, kForward, r.x, r.h, w, r_weights, r.bias,
                                             r.y, r.h, dnnl::rnn_flags::undef, slope);
#endif
}

// [inputs, G, H] with rows a little apart: rows of a power of two would share cache sets.
Memory::desc PlainWeights(int64_t inputs, int64_t gates, int64_t units, Memory::data_type type) {
  constexpr int64_t kLine = 16;
  const int64_t stride = ((gates * units + kLine - 1) / kLine | 1) * kLine;
  return {{1, 1, inputs, gates, units}, type, {inputs * stride, inputs * stride, stride, units, 1}};
}

template <typename Primitive>
void Finish(const typename Primitive::primitive_desc& description, Recurrence& out) {
  out.primitive = Primitive(description);
  out.w = description.weights_layer_desc();
  out.r = description.weights_iter_desc();
  out.scratchpad = description.scratchpad_desc();
}

dnnl::status LimitInstructions() {
  switch (MaxInstructionSet()) {
    case InstructionSet::kSse4:
      return dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
    case InstructionSet::kAvx2:
      return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    case InstructionSet::kAvx512:
      return dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
    case InstructionSet::kAll:
      break;
  }
  return dnnl::status::success;
}

}  // namespace

Memory::data_type OneDnnType(DataType type) {
  return type == DataType::kBFloat16 ? Memory::data_type::bf16 : Memory::data_type::f32;
}

int64_t BiasGates(const CellSpec& cell) {
  return GateCount(cell.kind) + (cell.kind == CellKind::kGru && cell.linear_before_reset ? 1 : 0);
}

bool CpuMultipliesBFloat16() {
  // Every engine asks this when it is made, and oneDNN takes a limit only before anything else.
  [[maybe_unused]] static const dnnl::status limited = LimitInstructions();
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

Recurrence MakeRecurrence(const dnnl::engine& engine, const CellSpec& cell, int64_t rows, int64_t steps,
                          WeightLayout layout) {
  const auto type = OneDnnType(cell.data_type);
  const auto single = Memory::data_type::f32;
  const int64_t inputs = cell.input_size, units = cell.hidden_size, gates = GateCount(cell.kind);
  Recurrence out;
  out.x = {{steps, rows, inputs}, type, Tag::tnc};
  out.y = {{steps, rows, units}, type, Tag::tnc};
  out.h = {{1, 1, rows, units}, type, Tag::ldnc};
  out.bias = {{1, 1, BiasGates(cell), units}, single, Tag::ldgo};
  const auto weights = [&](int64_t columns) {
    if (layout == WeightLayout::kPlain) return PlainWeights(columns, gates, units, type);
    return Memory::desc({1, 1, columns, gates, units}, type, Tag::any);
  };
  const Memory::desc w = weights(inputs), r = weights(units);
  switch (cell.kind) {
    case CellKind::kLstm:
      out.c = {{1, 1, rows, units}, single, Tag::ldnc};
      if (cell.has_peephole) {
        out.peephole = {{1, 1, 3, units}, single, Tag::ldgo};
        Finish<dnnl::lstm_forward>(Describe<dnnl::lstm_forward>(engine, kInference, kForward, out.x, out.h, out.c, w, r,
                                                                out.peephole, out.bias, out.y, out.h, out.c),
                                   out);
      } else {
        Finish<dnnl::lstm_forward>(Describe<dnnl::lstm_forward>(engine, kInference, kForward, out.x, out.h, out.c, w, r,
                                                                out.bias, out.y, out.h, out.c),
                                   out);
      }
      break;
    case CellKind::kGru:
      if (cell.linear_before_reset) {
        Finish<dnnl::lbr_gru_forward>(
            Describe<dnnl::lbr_gru_forward>(engine, kInference, kForward, out.x, out.h, w, r, out.bias, out.y, out.h),
            out);
      } else {
        Finish<dnnl::gru_forward>(
            Describe<dnnl::gru_forward>(engine, kInference, kForward, out.x, out.h, w, r, out.bias, out.y, out.h), out);
      }
      break;
    case CellKind::kRnn:
      Finish<dnnl::vanilla_rnn_forward>(DescribeRnn(engine, cell.activations[0], out, w, r), out);
      break;
  }
  return out;
}

}  // namespace rnnserve::onednn
