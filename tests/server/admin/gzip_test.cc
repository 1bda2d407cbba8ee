// SPDX-License-Identifier: Apache-2.0
#include "server/admin/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace rnnserve {
namespace {

std::string Decompressed(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string plain(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(plain.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  plain.resize(stream.total_out);
  inflateEnd(&stream);
  return plain;
}

TEST(Gzip, IsTheSameTextSmaller) {
  std::string text;
  for (int k = 0; k < 10'000; ++k) text += "rnnserve_requests_total{code=\"OK\"} " + std::to_string(k) + "\n";
  const std::string compressed = Gzip(text);
  EXPECT_LT(compressed.size(), text.size() / 5);
  EXPECT_EQ(Decompressed(compressed), text);
  EXPECT_EQ(Decompressed(Gzip("")), "");
}

TEST(AcceptsGzip, GoesByTheCodingAndItsWeight) {
  for (const char* accepted : {"gzip", "GZip", " gzip ; q=1", "gzip;q=0.001", "br,gzip", "*", "deflate, *;q=0.5"}) {
    EXPECT_TRUE(AcceptsGzip(accepted)) << accepted;
  }
  for (const char* refused :
       {"", ",", "identity", "gzip;q=0", "gzip;q=0.000, *", "*;q=0", "gzipped", "gzip;q=x", "br"}) {
    EXPECT_FALSE(AcceptsGzip(refused)) << refused;
  }
}

}  // namespace
}  // namespace rnnserve
