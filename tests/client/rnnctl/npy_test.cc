// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/float16.h"

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using client::Tensor;
using client::ValuesOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A file of the given version and header text, with `data` after it; the header's length field may lie.
std::string File(const std::string& header, const std::string& data, char major = 1,
                 std::optional<uint32_t> length = std::nullopt) {
  std::string file("\x93NUMPY", 6);
  file += major;
  file += '\0';
  const uint32_t n = length.value_or(static_cast<uint32_t>(header.size()));
  for (int k = 0; k < (major == 1 ? 2 : 4); ++k) file += static_cast<char>(n >> (8 * k) & 0xff);
  return file + header + data;
}

std::string WhyNpy(const std::string& file) {
  const auto tensor = ParseNpy(file);
  EXPECT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensor.status().message());
}

constexpr char kPlain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
const std::string kEight(8, '\0');

TEST(NpyTest, ReadsWhatNumpyWrites) {
  // numpy.save(f, numpy.array([[1, 2, 3]], numpy.int32)), byte for byte.
  const std::string header =
      "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 3), }" + std::string(58, ' ') + "\n";
  ASSERT_EQ(header.size(), 118u);
  const auto tensor = ParseNpy(File(header, std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->type, DataType::kInt32);
  EXPECT_THAT(tensor->shape, ElementsAre(1, 3));
  EXPECT_THAT(ValuesOf(*tensor), ElementsAre(1, 2, 3));
}

TEST(NpyTest, ReadsVersionTwoOtherQuotesAndOrder) {
  const auto tensor = ParseNpy(File(R"({"shape":(2,1),"fortran_order":False,"descr":"<f4"})", kEight, 2));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->shape, ElementsAre(2, 1));
}

TEST(NpyTest, RoundTripsEveryTypeAndRank) {
  const uint16_t half = HalfFromFloat(1.5f);
  for (const Tensor& tensor :
       {MakeTensor("", {2, 2}, std::vector<float>{1, 2, 3, 4}), MakeTensor("", {3}, std::vector<double>{1, 2, 3}),
        MakeTensor("", {}, std::vector<int32_t>{-5}), MakeTensor("", {1, 1, 1}, std::vector<int64_t>{INT64_MIN}),
        MakeTensor("", {0, 4}, std::vector<float>{}),
        Tensor{"", DataType::kFloat16, {1}, std::string(reinterpret_cast<const char*>(&half), 2)}}) {
    const std::string file = FormatNpy(tensor);
    EXPECT_EQ((file.size() - tensor.bytes.size()) % 64, 0u);
    const auto back = ParseNpy(file);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->type, tensor.type);
    EXPECT_EQ(back->shape, tensor.shape);
    EXPECT_EQ(back->bytes, tensor.bytes);
  }
}

TEST(NpyTest, WritesBFloat16AsFloat32) {
  const uint16_t bits = BFloat16FromFloat(-3);
  const auto back =
      ParseNpy(FormatNpy({"Y", DataType::kBFloat16, {1}, std::string(reinterpret_cast<const char*>(&bits), 2)}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->type, DataType::kFloat);
  EXPECT_THAT(ValuesOf(*back), ElementsAre(-3));
}

TEST(NpyTest, EveryPrefixOfAFileIsRefused) {
  const std::string file = File(kPlain, kEight);
  ASSERT_TRUE(ParseNpy(file).ok());
  for (size_t length = 0; length < file.size(); ++length) EXPECT_FALSE(ParseNpy(file.substr(0, length)).ok()) << length;
  EXPECT_FALSE(ParseNpy(file + "x").ok());
}

TEST(NpyTest, SaysWhatIsWrongAndHowToMendIt) {
  EXPECT_THAT(WhyNpy("PK\3\4 an .npz"), HasSubstr("numpy.save"));
  EXPECT_THAT(WhyNpy(File(kPlain, kEight, 3)), HasSubstr("version 3.0"));
  EXPECT_THAT(WhyNpy(File(kPlain, kEight, 1, 60000)), HasSubstr("60000 bytes"));
  EXPECT_THAT(WhyNpy(File(kPlain, kEight, 2, 0xffffffff)), HasSubstr("4294967295 bytes"));
  EXPECT_THAT(WhyNpy(File(kPlain, "abc")), HasSubstr("takes 8 bytes, but 3 follow"));
  EXPECT_THAT(WhyNpy(File("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", kEight)),
              HasSubstr("ascontiguousarray"));
  EXPECT_THAT(WhyNpy(File("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", kEight)),
              HasSubstr("astype('<f4')"));
  EXPECT_THAT(WhyNpy(File("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", kEight)), HasSubstr("'|O'"));
  EXPECT_THAT(WhyNpy(File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", kEight)),
              HasSubstr("structured"));
}

TEST(NpyTest, HostileHeadersAreRefused) {
  const std::vector<std::string> headers = {
      "",
      "{",
      "{}",
      "{'descr'}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
      "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} and more",
      "{'descr': '<f4' 'fortran_order': False}",
  };
  for (const std::string& header : headers) EXPECT_FALSE(ParseNpy(File(header, kEight)).ok()) << header;
}

}  // namespace
}  // namespace rnnserve::rnnctl
