// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/predicate.h"

namespace rnnserve::cuda {
namespace {

// Sizes up to which all indices of the libraries fit their 32 bits, with room for the gates.
constexpr int64_t kLargestWidth = int64_t{1} << 24;

bool IsWidth(int64_t size, int64_t least) { return size >= least && size <= kLargestWidth; }

bool IsType(int type) {
  return type == RNNSERVE_FLOAT || type == RNNSERVE_FLOAT16 || type == RNNSERVE_DOUBLE || type == RNNSERVE_BFLOAT16;
}

std::string LstmRefusal(const rnnserve_cell& cell) {
  const rnnserve_activation* a = cell.activations;
  if (cell.has_peephole) return "cuDNN has no peepholes (P)";
  if (cell.input_forget) return "cuDNN has no input_forget";
  if (!ActsAs(a[0], RNNSERVE_SIGMOID) || !ActsAs(a[1], RNNSERVE_TANH) || !ActsAs(a[2], RNNSERVE_TANH)) {
    return "cuDNN's LSTM has the activations Sigmoid, Tanh, Tanh only";
  }
  return "";
}

std::string GruRefusal(const rnnserve_cell& cell) {
  const rnnserve_activation* a = cell.activations;
  if (!cell.linear_before_reset) return "cuDNN's GRU has linear_before_reset = 1 only";
  if (!ActsAs(a[0], RNNSERVE_SIGMOID) || !ActsAs(a[1], RNNSERVE_TANH)) {
    return "cuDNN's GRU has the activations Sigmoid, Tanh only";
  }
  return "";
}

}  // namespace

bool ActsAs(const rnnserve_activation& activation, int kind) {
  if (activation.kind == kind) return true;
  return kind == RNNSERVE_TANH && activation.kind == RNNSERVE_SCALED_TANH && activation.alpha == 1.0 &&
         activation.beta == 1.0;
}

std::string EngineRefusal(const rnnserve_cell& cell) {
  if (cell.deterministic) {
    return "the cuda engine's sums depend on how many rows share a batch, so it can't promise the same bits "
           "(deterministic); the reference and cpu engines do";
  }
  if (cell.kind < RNNSERVE_LSTM || cell.kind > RNNSERVE_RNN)
    return "the cuda engine knows LSTM, GRU and RNN cells only";
  if (!IsType(cell.data_type)) return "the cuda engine runs float32, float16, bfloat16 and float64";
  if (!IsWidth(cell.input_size, 0) || !IsWidth(cell.hidden_size, 1)) {
    const std::string largest = std::to_string(kLargestWidth);
    return "the cuda engine takes input_size 0.." + largest + " and hidden_size 1.." + largest;
  }
  for (const rnnserve_activation& activation : cell.activations) {
    if (activation.kind >= RNNSERVE_RELU && activation.kind <= RNNSERVE_SOFTPLUS) continue;
    return "the cuda engine doesn't know activation " + std::to_string(activation.kind);
  }
  return "";
}

std::string CudnnRefusal(const rnnserve_cell& cell) {
  if (cell.input_size == 0) return "input_size is 0";
  if (cell.clip < __builtin_inf()) return "cuDNN has no clip of gate inputs";
  switch (cell.kind) {
    case RNNSERVE_LSTM:
      return LstmRefusal(cell);
    case RNNSERVE_GRU:
      return GruRefusal(cell);
    default:
      if (ActsAs(cell.activations[0], RNNSERVE_TANH) || ActsAs(cell.activations[0], RNNSERVE_RELU)) return "";
      return "cuDNN's RNN has the activations Tanh and Relu only";
  }
}

}  // namespace rnnserve::cuda
