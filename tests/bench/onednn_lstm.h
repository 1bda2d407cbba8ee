// SPDX-License-Identifier: Apache-2.0
// oneDNN's own LSTM primitive, forward, float32, on the calling thread: the peer of the benchmarks.
#pragma once

#include <cstdint>
#include <memory>

namespace rnnserve {

class OneDnnLstm {
 public:
  // I = H. Weights and inputs are random.
  OneDnnLstm(int64_t steps, int64_t rows, int64_t units);
  ~OneDnnLstm();
  void Run();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rnnserve
