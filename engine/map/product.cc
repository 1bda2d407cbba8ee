// SPDX-License-Identifier: Apache-2.0
#include "engine/map/product.h"

#include <algorithm>

#include "engine/map/functions.h"

namespace rnnserve::map {
namespace {

// Row by row, so that a row's bits depend on nothing else.
template <typename T>
class PlainProduct : public Product<T> {
 public:
  explicit PlainProduct(const MapOp& op) : op_(op), columns_(op.a->size() / op.inner) {}

  void Run(const T* x, T* y, int64_t rows, std::byte*) const override {
    const T* w = op_.a->of<T>().data();
    for (int64_t row = 0; row < rows; ++row, x += op_.inner, y += columns_) {
      if (op_.b != nullptr) {
        std::copy_n(op_.b->of<T>().data(), columns_, y);
      } else {
        std::fill_n(y, columns_, T{0});
      }
      for (int64_t k = 0; k < op_.inner; ++k) {
        const T factor = x[k];
        const T* from = w + k * columns_;
        for (int64_t column = 0; column < columns_; ++column) y[column] += factor * from[column];
      }
      if (op_.function != MapFunction::kNone) Apply(op_.function, op_.alpha, op_.beta, y, y, columns_);
    }
  }

 private:
  const MapOp& op_;
  const int64_t columns_;
};

}  // namespace

#ifndef RNNSERVE_MAP_ONEDNN
std::unique_ptr<Product<float>> MakeOneDnnProduct(const MapOp&, bool) { return nullptr; }
#endif

template <>
std::unique_ptr<Product<float>> MakeProduct(const MapOp& op, bool one_order) {
  if (op.inner > 0) {
    if (std::unique_ptr<Product<float>> made = MakeOneDnnProduct(op, one_order)) return made;
  }
  return std::make_unique<PlainProduct<float>>(op);
}

template <>
std::unique_ptr<Product<double>> MakeProduct(const MapOp& op, bool) {
  return std::make_unique<PlainProduct<double>>(op);
}

}  // namespace rnnserve::map
