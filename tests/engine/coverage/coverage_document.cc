// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/coverage/coverage_document.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/coverage/coverage_cases.h"
#include "tests/engine/coverage/coverage_columns.h"

namespace rnnserve {
namespace {

constexpr char kTop[] =
    R"(# Coverage: which engine runs what

Generated from the engines' own answers by `build/release/tests/engine/coverage/coverage`, and checked by `coverage_test`, which also
runs every "yes" against the engine `reference` and asks every engine for the reason of each "no". Each row is an operator with one
attribute, input or option away from its default; a call that names no engine runs on the fastest one with a "yes"
([how](architecture.md#routing)).

The engine `cuda` is a plugin ([GPUs](gpu.md)); its "yes" was run on a device made of host code, and much of it on an H100. The
column "by cuDNN" says which of its cells cuDNN computes; the others take its general path.

A number stands for "no" and its reason below; a dash for a type that the operator does not have. Sizes matter once: `cpu` refuses one
to a few units with tens of millions of inputs, whose weights it would pad to many times their size.
)";

// Reasons by number, from 1.
class Reasons {
 public:
  size_t NumberOf(const std::string& reason) {
    auto at = std::ranges::find(reasons_, reason);
    if (at == reasons_.end()) at = reasons_.insert(reasons_.end(), reason);
    return static_cast<size_t>(at - reasons_.begin()) + 1;
  }
  const std::vector<std::string>& all() const { return reasons_; }

 private:
  std::vector<std::string> reasons_;
};

std::string Heading(const std::vector<CoverageColumn>& columns) {
  std::string names = "| |", rule = "|---|";
  for (const CoverageColumn& column : columns) {
    absl::StrAppend(&names, " ", column.engine, " ", column.type, " |");
    absl::StrAppend(&rule, "---|");
  }
  return absl::StrCat(names, "\n", rule, "\n");
}

std::string Answer(const CoverageCase& row, const CoverageColumn& column, Reasons& reasons) {
  const absl::Status answer = CoverageAnswer(row, column);
  if (answer.ok()) return "yes";
  if (answer.code() == absl::StatusCode::kInvalidArgument) return "-";
  return absl::StrCat(reasons.NumberOf(absl::StrCat(column.engine, ": ", answer.message())));
}

// By hand: CI has no exporter. tests/campaigns/test_exporters.py writes the files and tells each line of it.
constexpr char kExporters[] = R"(
## Exported files

Files as exporters write them, tried on 2026-11-26 by `tests/campaigns/test_exporters.py`, which exports them anew: torch 2.15.0
(onnxscript 0.7.2), keras 3.15.1 with tensorflow-cpu 2.21.0, tf2onnx 1.17.0. Each that loads gives onnxruntime's numbers, whole, and
where it can, with lengths and in a session cut at random; the largest difference of all is 2e-6 of max(1, |expected|), behind GroupNorm. Unless told,
torch is `dynamo=True` and `dynamo=False`, with fixed and with dynamic shapes.

| exporter | model | |
|---|---|---|
| torch | nn.LSTM, nn.GRU of 1 to 4 layers, one and both directions, batch_first or not | loads |
| torch, `dynamo=False` | nn.RNN, the same | loads |
| torch, `dynamo=True` | nn.RNN | "no LSTM, GRU or RNN node ...; this export is unrolled: export it with dynamo=False" |
| torch | Embedding, LSTM of 2 layers (both directions, batch_first or not, one row), LayerNorm, Linear, softmax | loads |
| torch | GRU of 2 layers, then the last step, a mean or maximum over time, or final states of both directions; Linear, ReLU | loads |
| torch | LSTM, residual, LSTM, tanh, residual | loads |
| torch | Embedding, LSTM of 2 layers with states in and out, Linear, TopK | loads |
| torch, `dynamo=False` | Embedding, pack_padded_sequence, LSTM of 2 layers (both directions), pad_packed_sequence, Linear | loads; its lengths are an input |
| torch, `dynamo=False` | the same with enforce_sorted=False, which sorts the rows and puts them back; final states, masked means and maxima behind it | loads |
| torch, `dynamo=False` | the same with given states | "... sorts a state that requests bring by the lengths of rows ... leave the lengths out ..." |
| torch, `dynamo=True` | pack_padded_sequence | the exporter refuses |
| torch | two Embeddings joined, GRU of 2 layers with dropout, both directions, Linear, argmax | loads |
| torch | Linear, PReLU, three bidirectional GRUs whose directions are summed, LayerNorm, residual, log_softmax, argmax | loads |
| torch | one_hot instead of an embedding, LSTM, Linear | loads |
| torch | LSTM, attention over time | "... looks along time; `rnnctl split` leaves this node to onnxruntime and the layers to the server" |
| torch | Conv2d and columns of a picture, or Conv1d, before LSTM or GRU; MultiheadAttention behind; `x - x.mean(1)` | refused with the node; `rnnctl split` parts them, equal to 1e-4 |
| torch | Linear, LSTM of [T, I] without rows | "... export the model with an axis of rows" |
| torch | LSTM, BatchNorm1d, LSTM, Linear, log_softmax; parts of features before and behind an LSTM (slices, chunk, cat) | loads |
| torch | nn.LSTM of 3 layers, one row; of 2 layers, one row and one step | loads; the exporter refuses dynamic shapes of the first |
| torch, `dynamo=True` | nn.LSTM with proj_size, with and without given states | "the layer has a projection (PyTorch: proj_size), which ONNX's LSTM cannot have" |
| torch | Embedding, LSTM of 2 layers (both directions), AdaptiveMaxPool1d or AdaptiveAvgPool1d over time, Linear | loads |
| torch | the same with max_pool1d of all steps | loads where the file fixes the steps, else "pools some steps at a time ... (PyTorch: y.max(1), ...) ..." |
| torch | Embedding of several characters a word, their mean, LSTM (emissions of a BiLSTM-CRF); Linear, 3 GRUs with LayerNorm between, log_softmax, argmax | loads |
| torch | LSTM, Linear, split, softplus, clamp, exp (parameters of a distribution); of a dueling head; with weights tied to the embedding | loads |
| torch | a decoder's step: tokens [N] or [N, 1], `embedding(token).view(1, -1, F)`, LSTM or GRU with states in and out, log_softmax | loads |
| torch, float16 | LSTM of 2 layers, Linear | loads |
| torch | Embedding, LSTM, mean over steps whose token is not 0; GRU, mean or maximum by a mask [N, T] that requests bring | loads |
| torch, `dynamo=False` | pack_padded_sequence by the lengths that a mask sums up to | "... let the model take them as an input [N]" |
| torch | sin and cos of an einsum before an LSTM; `y[:, x.size(1) - 1]` in GroupNorm; torch.where with zeros_like; round | loads |
| torch | LSTM of 2 layers, mean or maximum by a mask of lengths (`arange(T) < lengths`, `lengths.clamp(min=1)`, masked_fill) | loads; "... takes lengths that no layer takes ..." where the padding would be seen: a layer that reads backwards, a final state, a mean without the mask |
| torch, `dynamo=True` | LSTM, `y[arange(N), lengths - 1]` or `y.gather(1, lengths - 1)` | loads |
| torch, `dynamo=False` | the same | "... of each row only the last step can be picked by its length (PyTorch: ... with dynamo=True, ...) ...", "... `rnnctl split` ..." |
| torch | x or tokens flipped, LSTM or GRU, flipped back, or its final state; states by zeros_like | loads |
| torch | nn.LSTMCell, in a loop or one step | "no LSTM, GRU or RNN node ...; nn.LSTMCell and nn.GRUCell never are one ..." |
| torch | an encoder and its decoder, or an autoencoder, in one file; Conv1d before the layers; MultiheadAttention behind; Linear over all steps at once | refused with the node |
| torch | initial states that are parameters, not zeros; a state for h and c in one tensor; layers that start from another's state | refused with the node |
| torch | features of a whole row beside those of steps; inputs [N, F, T]; every second or the last three steps | refused with the node |
| torch, `dynamo=False` | nn.LSTM with proj_size | the exporter refuses |
| keras, tf2onnx | LSTM of 2 layers, Dense | loads |
| keras, tf2onnx | Bidirectional LSTM, Dense | loads |
| keras, tf2onnx | LSTM, GlobalAveragePooling1D, Dense | loads |
| keras, tf2onnx | Embedding, LSTM, Dense | loads |
| keras, tf2onnx | LSTM, LayerNormalization or BatchNormalization, LSTM; GlobalMaxPooling1D; Dense, LSTM of several inputs; return_state; residual | loads |
| keras, tf2onnx | LSTM with initial_state [N, H] in and out | loads |
| keras, tf2onnx | TimeDistributed(Dense) | "... Keras' TimeDistributed (leave it out: Dense computes each step by itself) ..." |
| keras, tf2onnx | Embedding with mask_zero, Masking, recurrent_activation hard_sigmoid | a Loop, as GRU and SimpleRNN |
| onnxruntime's optimised_model_filepath (basic, extended, all), onnxsim | 14 of the above | load as the file itself does |
| onnxruntime's MatMulNBitsQuantizer, 4 and 8 bits, QDQ | 3 of the above | load; as QOperator: "... MatMulNBits ... is quantised ..." |
| onnxruntime's quantize_dynamic | any of the above | "... DynamicQuantizeLSTM ... is quantised: serve the file that it was made from; option weight_type = INT8 ..." |
| keras, tf2onnx | GRU; SimpleRNN | "no LSTM, GRU or RNN node ...: its recurrence is a Loop or Scan" |
)";

}  // namespace

std::string CoverageDocument() {
  const std::vector<CoverageColumn> columns = CoverageColumns();
  Reasons reasons;
  std::string text = kTop, op;
  for (const CoverageCase& row : CoverageCases()) {
    if (row.op != op) absl::StrAppend(&text, "\n## ", row.op, "\n\n", Heading(columns));
    op = row.op;
    absl::StrAppend(&text, "| ", row.what, " |");
    for (const CoverageColumn& column : columns) absl::StrAppend(&text, " ", Answer(row, column, reasons), " |");
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "\n\\* with option `allow_reduced_precision`, on a CPU with AVX512_BF16.\n\n## Reasons\n\n");
  for (size_t k = 0; k < reasons.all().size(); ++k) absl::StrAppend(&text, k + 1, ". ", reasons.all()[k], "\n");
  return text + kExporters;
}

}  // namespace rnnserve
