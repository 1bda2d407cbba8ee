// SPDX-License-Identifier: Apache-2.0
#include "server/core/nonfinite.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace rnnserve {
namespace {

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
void CheckEveryPlace(DataType type, T good, std::vector<T> bad) {
  for (const size_t size : {1, 7, 4096, 4097, 9001}) {
    std::vector<T> values(size, good);
    EXPECT_FALSE(HasNonfinite(type, Bytes(values))) << size;
    for (const T value : bad) {
      for (const size_t place : {size_t{0}, size / 2, size - 1}) {
        values[place] = value;
        EXPECT_TRUE(HasNonfinite(type, Bytes(values))) << size << " " << place;
        values[place] = good;
      }
    }
  }
}

TEST(HasNonfinite, FindsEachKindAnywhere) {
  using F = std::numeric_limits<float>;
  using D = std::numeric_limits<double>;
  CheckEveryPlace<float>(DataType::kFloat, F::max(), {F::infinity(), -F::infinity(), F::quiet_NaN(), -F::quiet_NaN()});
  CheckEveryPlace<double>(DataType::kDouble, D::lowest(), {D::infinity(), -D::infinity(), D::quiet_NaN()});
  CheckEveryPlace<uint16_t>(DataType::kFloat16, 0x7bff, {0x7c00, 0xfc00, 0x7e00, 0x7c01});
  CheckEveryPlace<uint16_t>(DataType::kBFloat16, 0x7f7f, {0x7f80, 0xff80, 0x7fc0, 0x7f81});
}

TEST(HasNonfinite, NothingIsFinite) {
  EXPECT_FALSE(HasNonfinite(DataType::kFloat, ""));
  EXPECT_FALSE(HasNonfinite(DataType::kInt64, std::string(8, '\xff')));
}

}  // namespace
}  // namespace rnnserve
