// SPDX-License-Identifier: Apache-2.0
// A cell's products by oneDNN and nothing else: of a single step [x, h] through W and R together; of several steps, all
// inputs through W at once, then h through R step by step.
#include <omp.h>

#include <unordered_map>
#include <vector>

#include "tests/bench/engines/onednn_calls.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

using Tag = dnnl::memory::format_tag;

class OneDnnProduct final : public TimedCell {
 public:
  OneDnnProduct(const Shape& shape, int threads) : outputs_(GateCount(shape.kind) * shape.units) {
    omp_set_num_threads(threads);
    if (shape.steps == 1) {
      Add(shape.rows, 2 * shape.units, 1);
    } else {
      Add(shape.steps * shape.rows, shape.units, 1);
      Add(shape.rows, shape.units, shape.steps);
    }
  }

  void Run() override {
    for (Product& product : products_) {
      for (int64_t k = 0; k < product.times; ++k) product.primitive.execute(calls_.stream, product.arguments);
    }
    calls_.stream.wait();
  }

 private:
  struct Product {
    dnnl::matmul primitive;
    std::unordered_map<int, dnnl::memory> arguments;
    int64_t times;
  };

  void Add(int64_t rows, int64_t inputs, int64_t times) {
    const auto x = FloatDesc({rows, inputs}, Tag::ab), y = FloatDesc({rows, outputs_}, Tag::ab);
    const auto description = Describe<dnnl::matmul>(calls_.engine, x, FloatDesc({inputs, outputs_}, Tag::any), y);
    const auto plain = FloatDesc({inputs, outputs_}, Tag::ab);
    products_.push_back({.primitive = dnnl::matmul(description),
                         .arguments = {{DNNL_ARG_SRC, calls_.Random(x, 1)},
                                       {DNNL_ARG_WEIGHTS, calls_.Reordered(plain, description.weights_desc(), 0.05f)},
                                       {DNNL_ARG_DST, calls_.Random(y, 1)}},
                         .times = times});
  }

  const int64_t outputs_;
  OneDnnCalls calls_;
  std::vector<Product> products_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimedCell>> MakeOneDnnProduct(const Shape& shape, int threads) {
  return std::make_unique<OneDnnProduct>(shape, threads);
}

}  // namespace rnnserve::bench
