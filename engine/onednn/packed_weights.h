// SPDX-License-Identifier: Apache-2.0
// A cell's weights in the layouts that oneDNN's primitives ask for, each made once. An LSTM or RNN needs one layout, a
// GRU another one for each packing that oneDNN ties to a number of rows.
//
//   ONNX W [G*H, I], R [G*H, H]: rows by gate, LSTM i, o, f, c     oneDNN [I or H, G, H] (igo), LSTM i, f, c, o
//   ONNX P [3*H]: i, o, f                                          oneDNN [3, H]: i, f, o
//   ONNX Wb + Rb [G*H]                                             oneDNN [G, H]; with linear_before_reset
//                                                                  z: Wb + Rb, r: Wb + Rb, h: Wb, h: Rb
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/onednn/recurrence.h"

namespace rnnserve::onednn {

class PackedWeights {
 public:
  PackedWeights(const dnnl::engine& engine, CellPtr cell);

  // The memories stay as they are from then on and may be read by all threads. Call these under a OneThreadTeam.
  Memory W(const Memory::desc& layout) { return Find(layout, false); }
  Memory R(const Memory::desc& layout) { return Find(layout, true); }
  const Memory& bias() const { return bias_; }
  const Memory& peephole() const { return peephole_; }

  int64_t bytes() const;

 private:
  struct Entry {
    bool recurrent;
    Memory::desc layout;
    Memory memory;
  };

  Memory Find(const Memory::desc& layout, bool recurrent);
  Memory Pack(const Memory::desc& layout, bool recurrent) const;

  const dnnl::engine engine_;
  const CellPtr cell_;
  Memory bias_, peephole_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
};

}  // namespace rnnserve::onednn
