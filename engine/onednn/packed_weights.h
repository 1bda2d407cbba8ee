// SPDX-License-Identifier: Apache-2.0
// A cell's weights in the layouts that oneDNN's primitives ask for, each made once. All shapes of an LSTM or RNN ask
// for the same; a GRU's packings (without AVX2 all) may be tied to rows and steps, so that only the first ones are kept
// and later shapes have to do with the plain layout.
//
//   ONNX W [G*H, I], R [G*H, H]: rows by gate, LSTM i, o, f, c     oneDNN [I or H, G, H] (igo), LSTM i, f, c, o
//   ONNX P [3*H]: i, o, f                                          oneDNN [3, H]: i, f, o
//   ONNX Wb + Rb [G*H]                                             oneDNN [G, H]; with linear_before_reset
//                                                                  z: Wb + Rb, r: Wb + Rb, h: Wb, h: Rb
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "engine/onednn/recurrence.h"

namespace rnnserve::onednn {

class PackedWeights {
 public:
  PackedWeights(const dnnl::engine& engine, CellPtr cell);

  struct Pair {
    Memory w, r;
  };

  // Weights as `recurrence` asks for them, or nothing if that would be one layout too many: never so for the plain one.
  // The memories stay as they are from then on and may be read by all threads. Call it under a OneThreadTeam.
  std::optional<Pair> Find(const Recurrence& recurrence, WeightLayout layout);
  const Memory& bias() const { return bias_; }
  const Memory& peephole() const { return peephole_; }

  // What all this may come to take.
  int64_t most_bytes() const;

 private:
  Memory Pack(const Memory::desc& layout, bool recurrent) const;

  const dnnl::engine engine_;
  const CellPtr cell_;
  Memory bias_, peephole_;
  Mutex mutex_;
  std::vector<Pair> pairs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rnnserve::onednn
