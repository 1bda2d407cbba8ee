// SPDX-License-Identifier: Apache-2.0
// Facts of cuDNN: what a call may leave out, how its data may lie.
#include <algorithm>
#include <cmath>

#include "tests/engine/cuda/selftest/fact_checks.h"
#include "tests/engine/cuda/selftest/facts.h"

namespace rnnserve::selftest {

void Optional() {
  for (const RnnCase& c : AllCells()) {
    const std::string kind = KindName(c);
    ExpectRight("NULL dropout descriptor, NULL device lengths, " + kind, c, 1e-5);
    RnnCase other = c;
    other.null_dropout = false;
    ExpectRight("dropout descriptor with NULL states, " + kind, other, 1e-5);
    other = c;
    other.initial = false;
    ExpectRight("hx, cx NULL mean zeros, " + kind, other, 1e-5);
    other = c;
    other.final = false;
    ExpectRight("hy, cy NULL mean not wanted, " + kind, other, 1e-5);
    other = c;
    other.alias_states = true;
    ExpectRight("hy = hx in place (nobody says so), " + kind, other, 1e-5);
    other = c;
    other.lengths = {5, 4, 2, 1};
    other.device_lengths = true;
    ExpectRight("device lengths are ignored (all 1 passed), " + kind, other, 1e-5);
    other = c;
    other.capture = true;
    ExpectRight("graph capture and two replays, " + kind, other, 1e-5);
    other.lengths = {5, 4, 2, 1};
    ExpectRight("graph capture, ragged, " + kind, other, 1e-5);
  }
}

void Layouts() {
  for (RnnCase c : AllCells()) {
    for (const int directions : {1, 2}) {
      c.directions = directions;
      const std::string kind = std::string(KindName(c)) + (directions == 2 ? " bidirectional" : "");
      RnnCase ragged = c;
      ragged.lengths = {3, 5, 1, 2};
      ragged.layout = CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
      ExpectRight("BATCH_MAJOR_UNPACKED, ragged unsorted, " + kind, ragged, 1e-5);
      ragged.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
      const RnnResult filled = ExpectRight("SEQ_MAJOR_UNPACKED, ragged unsorted, " + kind, ragged, 1e-5);
      if (filled.ok()) {
        double padding = 0;
        const RnnResult want = RunExpected(ragged, MakeData(ragged, 7));
        for (size_t k = 0; k < want.y.size(); ++k) {
          if (want.y[k] == 0) padding = std::max(padding, std::fabs(filled.y[k]));
        }
        Report(padding == 0, "padding fill of zero is written, " + kind, "worst padded value %g", padding);
      }
      ragged.fill = false;
      const RnnResult bare = RunCudnn(ragged, MakeData(ragged, 7));
      if (bare.ok()) {
        size_t kept = 0, padded = 0;
        const auto width = static_cast<size_t>(c.directions * c.hidden);
        for (int t = 0; t < c.steps; ++t) {
          for (int n = 0; n < c.rows; ++n) {
            if (t < ragged.lengths[static_cast<size_t>(n)]) continue;
            for (size_t k = 0; k < width; ++k, ++padded) {
              kept += bare.y[(static_cast<size_t>(t * c.rows + n)) * width + k] == kSentinel;
            }
          }
        }
        Note("padded y without a fill, " + kind, "%zu of %zu values kept", kept, padded);
      }
      RnnCase packed = c;
      packed.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
      packed.lengths = {5, 3, 2, 1};
      packed.flags = CUDNN_RNN_PADDED_IO_DISABLED;
      ExpectRight("SEQ_MAJOR_PACKED, sorted, padded I/O off, " + kind, packed, 1e-5);
      packed.flags = CUDNN_RNN_PADDED_IO_ENABLED;
      const RnnData data = MakeData(packed, 7);
      const RnnResult both = RunCudnn(packed, data);
      Note("SEQ_MAJOR_PACKED with padded I/O on, " + kind, "%s, error %.2e", both.Why().c_str(),
           Error(packed, both, RunExpected(packed, data)));
    }
  }
  RnnCase c;
  c.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  c.flags = CUDNN_RNN_PADDED_IO_DISABLED;
  c.lengths = {3, 5, 1, 2};
  ExpectRefused("SEQ_MAJOR_PACKED refuses unsorted lengths", c);
  c = RnnCase{};
  c.lengths = {3, 5, 1, 2};
  c.flags = CUDNN_RNN_PADDED_IO_DISABLED;
  ExpectRefused("ragged, unpacked, without the padded-I/O flag", c);
  c.lengths = {};
  ExpectRight("equal lengths, unpacked, without the padded-I/O flag", c, 1e-5);
}

void Projection() {
  RnnCase c;
  c.projection = 8;
  const RnnResult standard = RunCudnn(c, MakeData(c, 7));
  Report(standard.ok(), "projection: LSTM, STANDARD", "%s", standard.Why().c_str());
  c.algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  ExpectRefused("projection: not with SMALL_H", c);
  RnnCase gru = Case(RNNSERVE_GRU);
  gru.projection = 8;
  ExpectRefused("projection: not for GRU", gru);
}

void ZeroSizes() {
  for (const RnnCase& c : AllCells()) {
    RnnCase mixed = c;
    mixed.lengths = {5, 0, 2, 0};
    const RnnData data = MakeData(mixed, 7);
    const RnnResult got = RunCudnn(mixed, data);
    RnnResult want = RunExpected(mixed, data);
    const double error = Error(mixed, got, want);
    double h_of_empty = 0;
    for (int k = 0; got.ok() && k < c.hidden; ++k)
      h_of_empty = std::max(
          h_of_empty, std::fabs(got.h[static_cast<size_t>(c.hidden + k)] - data.h0[static_cast<size_t>(c.hidden + k)]));
    Note(std::string("length 0 among others, ") + KindName(c), "%s, error %.2e, final h of the empty row is %s",
         got.Why().c_str(), error,
         !got.ok()         ? "-"
         : h_of_empty == 0 ? "its initial h"
                           : "something else");
    RnnCase packed = mixed;
    packed.lengths = {5, 2, 0, 0};
    packed.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    packed.flags = CUDNN_RNN_PADDED_IO_DISABLED;
    const RnnData packed_data = MakeData(packed, 7);
    const RnnResult packed_got = RunCudnn(packed, packed_data);
    Note(std::string("length 0 among others, packed, ") + KindName(c), "%s, error %.2e", packed_got.Why().c_str(),
         Error(packed, packed_got, RunExpected(packed, packed_data)));
    RnnCase none = c;
    none.lengths = {0, 0, 0, 0};
    const RnnResult empty = RunCudnn(none, MakeData(none, 7));
    Note(std::string("all lengths 0, ") + KindName(c), "%s", empty.Why().c_str());
    const RnnResult after = RunCudnn(c, MakeData(c, 7));
    Report(after.ok(), std::string("the context survives it, ") + KindName(c), "%s", after.Why().c_str());
  }
  for (const char* what : {"T", "N", "I"}) {
    RnnCase c;
    (what[0] == 'T' ? c.steps : what[0] == 'N' ? c.rows : c.inputs) = 0;
    const RnnResult got = RunCudnn(c, MakeData(c, 7));
    Report(!got.ok(), std::string(what) + " = 0 is refused", "%s", got.Why().c_str());
  }
}

}  // namespace rnnserve::selftest
