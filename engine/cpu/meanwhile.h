// SPDX-License-Identifier: Apache-2.0
// Other work of the same thread, in pieces, that a product by tiles does between its instructions: the core's vector
// units have little else to do while its tiles multiply.
//
//   Meanwhile meanwhile(rows, products, run_row);  // run_row(k), each k once, in order
//   ...                                            // the products, one after the other: Expect, then Pass often
//   meanwhile.Finish();
#pragma once

#include <cstddef>

namespace rnnserve::cpu {

class Meanwhile {
 public:
  // Keeps a reference to `run`. The pieces are spread over so many `products`.
  template <typename Run>
  Meanwhile(size_t pieces, size_t products, const Run& run)
      : run_([](const void* context, size_t piece) { (*static_cast<const Run*>(context))(piece); }),
        context_(&run),
        pieces_(pieces),
        products_(products) {}

  // A product begins, and will Pass so many times.
  void Expect(size_t passes) {
    passes_ = passes * products_;
    share_ = pieces_ - done_;
    credit_ = 0;
    if (products_ > 1) --products_;
  }
  void Pass() {
    for (credit_ += share_; credit_ >= passes_ && done_ < pieces_; credit_ -= passes_) run_(context_, done_++);
  }
  void Finish() {
    while (done_ < pieces_) run_(context_, done_++);
  }

 private:
  void (*const run_)(const void* context, size_t piece);
  const void* const context_;
  const size_t pieces_;
  size_t products_;
  size_t done_ = 0;
  size_t passes_ = 1;
  size_t share_ = 0;
  size_t credit_ = 0;
};

}  // namespace rnnserve::cpu
