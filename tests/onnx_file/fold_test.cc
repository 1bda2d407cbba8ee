// SPDX-License-Identifier: Apache-2.0
// Each foldable operator by itself. tests/integration/test_inspect.py holds chains of them against onnxruntime.
#include "onnx_file/fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

// One node with its inputs.
class FoldTest : public testing::Test {
 public:  // chained calls come from outside
  // 0, 1, 2, ... as floats.
  FoldTest& Floats(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(NumElements(shape).value()));
    std::iota(values.begin(), values.end(), 0.0F);
    return Add(DataType::kFloat, shape, values);
  }
  FoldTest& Ints(const std::vector<int64_t>& values) {
    return Add(DataType::kInt64, {static_cast<int64_t>(values.size())}, values);
  }
  FoldTest& Scalar(int64_t value) { return Add(DataType::kInt64, {}, std::vector<int64_t>{value}); }
  FoldTest& None() {
    inputs_.emplace_back(std::nullopt);
    return *this;
  }
  template <typename T>
  FoldTest& Add(DataType type, const Shape& shape, const std::vector<T>& values) {
    std::string& bytes = bytes_.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    inputs_.push_back(OnnxTensor{{type, shape, std::as_bytes(std::span(bytes))}, nullptr});
    return *this;
  }
  FoldTest& Int(const std::string& name, int64_t value) {
    AddAttribute(node_, name, onnx::AttributeProto::INT).set_i(value);
    return *this;
  }
  FoldTest& IntList(const std::string& name, const std::vector<int64_t>& values) {
    AddAttribute(node_, name, onnx::AttributeProto::INTS).mutable_ints()->Add(values.begin(), values.end());
    return *this;
  }

  // The node is gone afterwards, so that a test can build the next one.
  absl::StatusOr<OnnxTensor> Do(const std::string& op_type, int64_t bytes_left = 1 << 20) {
    node_.set_op_type(op_type);
    std::vector<const OnnxTensor*> inputs;
    for (const auto& input : inputs_) inputs.push_back(input ? &*input : nullptr);
    absl::StatusOr<OnnxTensor> result = Fold(node_, inputs, bytes_left);
    bytes_left_ = bytes_left;
    node_.Clear();
    inputs_.clear();
    return result;
  }
  // Shape and elements, or the error, as text.
  std::string Text(const std::string& op_type) {
    const absl::StatusOr<OnnxTensor> result = Do(op_type);
    if (!result.ok()) return std::string(result.status().message());
    EXPECT_EQ(NumBytes(result->view.type, result->view.shape), result->view.data.size());
    std::string text = ShapeString(result->view.shape);
    for (size_t at = 0; at < result->view.data.size(); at += ByteSize(result->view.type)) {
      int64_t number = 0;
      if (result->view.type == DataType::kFloat) {
        float value = 0;
        std::memcpy(&value, result->view.data.data() + at, 4);
        number = static_cast<int64_t>(value);
      } else {
        std::memcpy(&number, result->view.data.data() + at, 8);
      }
      absl::StrAppend(&text, " ", number);
    }
    return text;
  }

  onnx::NodeProto node_;
  std::deque<std::string> bytes_;
  std::deque<std::optional<OnnxTensor>> inputs_;
  int64_t bytes_left_ = 0;
};

TEST_F(FoldTest, Slice) {
  EXPECT_EQ(Floats({6}).Ints({1}).Ints({4}).Text("Slice"), "[3] 1 2 3");
  EXPECT_EQ(Floats({2, 3}).Ints({1}).Ints({3}).Ints({1}).Text("Slice"), "[2, 2] 1 2 4 5");
  EXPECT_EQ(Floats({2, 3}).Ints({0, -1}).Ints({1, kMax}).Ints({-2, -1}).Text("Slice"), "[1, 1] 2");
  EXPECT_EQ(Floats({6}).Ints({5}).Ints({kMin}).None().Ints({-2}).Text("Slice"), "[3] 5 3 1");
  EXPECT_EQ(Floats({6}).Ints({-100}).Ints({100}).Ints({0}).Ints({4}).Text("Slice"), "[2] 0 4");
  EXPECT_EQ(Floats({6}).Ints({4}).Ints({2}).Text("Slice"), "[0]");
  EXPECT_EQ(Floats({6}).Ints({kMax}).Ints({kMin}).None().Ints({kMin}).Text("Slice"), "[1] 5");
  EXPECT_EQ(Floats({6}).Ints({kMin}).Ints({kMax}).None().Ints({kMax}).Text("Slice"), "[1] 0");
  EXPECT_EQ(Floats({2, 0}).Ints({0, 0}).Ints({1, 9}).Text("Slice"), "[1, 0]");
  // Before opset 10.
  EXPECT_EQ(Floats({2, 3}).IntList("starts", {1}).IntList("ends", {2}).IntList("axes", {0}).Text("Slice"),
            "[1, 3] 3 4 5");
}

TEST_F(FoldTest, SliceRefusals) {
  EXPECT_THAT(Floats({6}).Ints({1}).Text("Slice"), HasSubstr("no ends"));
  EXPECT_THAT(Floats({6}).Ints({1}).Ints({2, 3}).Text("Slice"), HasSubstr("1 starts, but 2 ends"));
  EXPECT_THAT(Floats({6}).Ints({1}).Ints({2}).Ints({1}).Text("Slice"), HasSubstr("axis 1 of a tensor with 1 axes"));
  EXPECT_THAT(Floats({6}).Ints({1}).Ints({2}).Ints({kMin}).Text("Slice"), HasSubstr("axis -9223372036854775808"));
  EXPECT_THAT(Floats({6}).Ints({1}).Ints({2}).None().Ints({0}).Text("Slice"), HasSubstr("step of 0"));
  EXPECT_THAT(Floats({2, 3}).Ints({1, 1}).Ints({2, 2}).Ints({1, -1}).Text("Slice"), HasSubstr("axis -1 twice"));
  EXPECT_THAT(Floats({6}).Ints(std::vector<int64_t>(9)).Ints({2}).Text("Slice"), HasSubstr("starts of 9 integers"));
  EXPECT_THAT(Floats({6}).Floats({1}).Ints({2}).Text("Slice"), HasSubstr("a list of integers is needed"));
  EXPECT_THAT(Text("Slice"), HasSubstr("no input 0"));
}

TEST_F(FoldTest, Concat) {
  EXPECT_EQ(Floats({2}).Floats({3}).Int("axis", 0).Text("Concat"), "[5] 0 1 0 1 2");
  EXPECT_EQ(Floats({2, 1}).Floats({2, 2}).Int("axis", -1).Text("Concat"), "[2, 3] 0 0 1 1 2 3");
  EXPECT_EQ(Floats({0, 2}).Floats({1, 2}).Floats({0, 2}).Int("axis", 0).Text("Concat"), "[1, 2] 0 1");
  EXPECT_EQ(Floats({0, 2}).Int("axis", 0).Text("Concat"), "[0, 2]");
  EXPECT_THAT(Floats({2, 1}).Floats({3, 2}).Int("axis", 1).Text("Concat"), HasSubstr("[2, 1] and [3, 2]"));
  EXPECT_THAT(Floats({2}).Floats({2, 1}).Int("axis", 0).Text("Concat"), HasSubstr("must be equal"));
  EXPECT_THAT(Floats({2}).Ints({2}).Int("axis", 0).Text("Concat"), HasSubstr("FLOAT and INT64"));
  EXPECT_THAT(Floats({2}).None().Int("axis", 0).Text("Concat"), HasSubstr("no input 1"));
  EXPECT_THAT(Floats({}).Int("axis", 0).Text("Concat"), HasSubstr("axis 0 of a tensor with 0 axes"));
}

TEST_F(FoldTest, Transpose) {
  EXPECT_EQ(Floats({2, 3}).Text("Transpose"), "[3, 2] 0 3 1 4 2 5");
  EXPECT_EQ(Floats({1, 2, 3}).IntList("perm", {1, 0, 2}).Text("Transpose"), "[2, 1, 3] 0 1 2 3 4 5");
  EXPECT_EQ(Floats({2, 2, 2}).IntList("perm", {2, 0, 1}).Text("Transpose"), "[2, 2, 2] 0 2 4 6 1 3 5 7");
  EXPECT_EQ(Floats({}).Text("Transpose"), "[] 0");
  EXPECT_EQ(Floats({0, 3}).Text("Transpose"), "[3, 0]");
  for (const std::vector<int64_t>& perm : {std::vector<int64_t>{0, 0}, {0}, {0, 2}, {-1, 0}, {0, 1, 2}}) {
    EXPECT_THAT(Floats({2, 3}).IntList("perm", perm).Text("Transpose"), HasSubstr("no order of 2 axes"));
  }
}

TEST_F(FoldTest, Reshape) {
  EXPECT_EQ(Floats({2, 3}).Ints({3, -1}).Text("Reshape"), "[3, 2] 0 1 2 3 4 5");
  EXPECT_EQ(Floats({2, 3}).Ints({0, 0, 1}).Text("Reshape"), "[2, 3, 1] 0 1 2 3 4 5");
  EXPECT_EQ(Floats({1}).Ints({}).Text("Reshape"), "[] 0");
  EXPECT_EQ(Floats({0, 3}).Ints({3, 0}).Int("allowzero", 1).Text("Reshape"), "[3, 0]");
  EXPECT_EQ(Floats({6}).IntList("shape", {2, 3}).Text("Reshape"), "[2, 3] 0 1 2 3 4 5");
  EXPECT_THAT(Floats({6}).Text("Reshape"), HasSubstr("no shape"));
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {4, -1}, {-1, -1}, {5}, {-2, -3}, {kMax, kMax}, {kMin}, {int64_t{1} << 32, int64_t{1} << 32}, {6, 0}}) {
    EXPECT_THAT(Floats({2, 3}).Ints(shape).Int("allowzero", 1).Text("Reshape"),
                HasSubstr("another number of elements"));
  }
  EXPECT_THAT(Floats({0}).Ints({-1, 0}).Text("Reshape"), HasSubstr("another number"));
}

TEST_F(FoldTest, SqueezeAndUnsqueeze) {
  EXPECT_EQ(Floats({1, 2, 1}).Ints({0}).Text("Squeeze"), "[2, 1] 0 1");
  EXPECT_EQ(Floats({1, 2, 1}).IntList("axes", {-1}).Text("Squeeze"), "[1, 2] 0 1");
  EXPECT_EQ(Floats({1, 2, 1}).Text("Squeeze"), "[2] 0 1");
  EXPECT_THAT(Floats({1, 2}).Ints({1}).Text("Squeeze"), HasSubstr("axis 1 out of [1, 2], where it is not 1"));
  EXPECT_THAT(Floats({1, 2}).Ints({2}).Text("Squeeze"), HasSubstr("axis 2"));
  EXPECT_EQ(Floats({2}).Ints({0, 2}).Text("Unsqueeze"), "[1, 2, 1] 0 1");
  EXPECT_EQ(Floats({2}).IntList("axes", {-1}).Text("Unsqueeze"), "[2, 1] 0 1");
  EXPECT_EQ(Floats({}).Scalar(0).Text("Unsqueeze"), "[1] 0");
  EXPECT_THAT(Floats({2}).Text("Unsqueeze"), HasSubstr("no axes"));
  EXPECT_THAT(Floats({2}).Ints({0, 0}).Text("Unsqueeze"), HasSubstr("axis 0 twice"));
  EXPECT_THAT(Floats({2}).Ints({0, 1, 2, 3, 4, 5, 6, 7}).Text("Unsqueeze"), HasSubstr("gives 9 axes"));
}

TEST_F(FoldTest, Gather) {
  EXPECT_EQ(Floats({3, 2}).Ints({2, 0}).Text("Gather"), "[2, 2] 4 5 0 1");
  EXPECT_EQ(Floats({2, 3}).Ints({-1}).Int("axis", 1).Text("Gather"), "[2, 1] 2 5");
  EXPECT_EQ(Floats({2, 3}).Scalar(1).Text("Gather"), "[3] 3 4 5");
  EXPECT_EQ(Floats({3}).Add(DataType::kInt32, {2, 1}, std::vector<int32_t>{1, -3}).Text("Gather"), "[2, 1] 1 0");
  EXPECT_EQ(Floats({0, 3}).Ints({}).Text("Gather"), "[0, 3]");
  EXPECT_THAT(Floats({3}).Ints({3}).Text("Gather"), HasSubstr("index 3 of an axis of 3"));
  EXPECT_THAT(Floats({3}).Ints({-4}).Text("Gather"), HasSubstr("index -4"));
  EXPECT_THAT(Floats({3}).Floats({1}).Text("Gather"), HasSubstr("no integers"));
  EXPECT_THAT(Floats({0, 3}).Ints({0}).Text("Gather"), HasSubstr("without elements"));
  EXPECT_THAT(Floats({}).Ints({0}).Text("Gather"), HasSubstr("axis 0"));
  EXPECT_THAT(Floats({1, 1, 1, 1, 1, 1, 1, 1}).Add(DataType::kInt64, {1, 1}, std::vector<int64_t>{0}).Text("Gather"),
              HasSubstr("more than 8 axes"));
}

TEST_F(FoldTest, Cast) {
  EXPECT_EQ(Ints({3, -4}).Int("to", onnx::TensorProto::FLOAT).Text("Cast"), "[2] 3 -4");
  EXPECT_EQ(Floats({2}).Int("to", onnx::TensorProto::FLOAT).Text("Cast"), "[2] 0 1");
  EXPECT_EQ(Add(DataType::kInt32, {1}, std::vector<int32_t>{-7}).Int("to", onnx::TensorProto::INT64).Text("Cast"),
            "[1] -7");
  const auto half = Floats({3}).Int("to", onnx::TensorProto::FLOAT16).Do("Cast");
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->view.type, DataType::kFloat16);
  const std::byte z{0};
  EXPECT_THAT(half->view.data, ElementsAre(z, z, z, std::byte{0x3c}, z, std::byte{0x40}));
  EXPECT_THAT(Ints({kMax}).Int("to", onnx::TensorProto::INT32).Text("Cast"), HasSubstr("9223372036854775807 to INT32"));
  EXPECT_THAT(Floats({1}).Int("to", onnx::TensorProto::INT64).Text("Cast"), HasSubstr("casts FLOAT to INT64"));
  EXPECT_THAT(Floats({1}).Int("to", onnx::TensorProto::STRING).Text("Cast"), HasSubstr("to STRING"));
  for (const int64_t to : {int64_t{-1}, kMax, (int64_t{1} << 32) + 1}) {
    EXPECT_THAT(Floats({1}).Int("to", to).Text("Cast"), HasSubstr("to type " + std::to_string(to)));
  }
}

TEST_F(FoldTest, IdentityAndConstant) {
  EXPECT_EQ(Floats({2}).Text("Identity"), "[2] 0 1");
  EXPECT_EQ(Int("value_int", 7).Text("Constant"), "[] 7");
  EXPECT_EQ(IntList("value_ints", {7, 8}).Text("Constant"), "[2] 7 8");
  AddAttribute(node_, "value_float", onnx::AttributeProto::FLOAT).set_f(3);
  EXPECT_EQ(Text("Constant"), "[] 3");
  AddAttribute(node_, "value_floats", onnx::AttributeProto::FLOATS).add_floats(4);
  EXPECT_EQ(Text("Constant"), "[1] 4");
  AddAttribute(node_, "value_string", onnx::AttributeProto::STRING).set_s("x");
  EXPECT_THAT(Text("Constant"), HasSubstr("\"value\""));
}

TEST_F(FoldTest, NumbersSpreadAsInArithmetic) {
  EXPECT_EQ(Floats({2, 3}).Floats({3}).Text("Add"), "[2, 3] 0 2 4 3 5 7");
  EXPECT_EQ(Floats({2, 1}).Floats({3}).Text("Sub"), "[2, 3] 0 -1 -2 1 0 -1");
  EXPECT_EQ(Floats({}).Floats({0}).Text("Mul"), "[0]");
  EXPECT_EQ(Ints({7, -7}).Scalar(2).Text("Div"), "[2] 3 -3");
  EXPECT_EQ(Floats({3}).Ints({2}).Text("Pow"), "[3] 0 1 4");
  EXPECT_THAT(Floats({3}).Ints({2}).Text("Mul"), HasSubstr("computes with FLOAT and INT64 at once"));
  EXPECT_THAT(Floats({3}).Floats({2}).Text("Mul"), HasSubstr("joins the shapes [3] and [2]"));
  EXPECT_THAT(Ints({kMax}).Ints({1}).Text("Add"), HasSubstr("too large"));
  EXPECT_THAT(Ints({1}).Ints({0}).Text("Div"), HasSubstr("too large"));
  EXPECT_EQ(Floats({1, 2}).Ints({2, 1}).Text("Expand"), "[2, 2] 0 1 0 1");
  EXPECT_EQ(Ints({2}).Text("ConstantOfShape"), "[2] 0 0");
  EXPECT_EQ(Floats({2, 3}).Int("start", -1).Text("Shape"), "[1] 3");
  EXPECT_EQ(Floats({2}).Text("Neg"), "[2] 0 -1");
}

TEST_F(FoldTest, AxesAreReduced) {
  EXPECT_EQ(Floats({2, 3}).IntList("axes", {0}).Text("ReduceSum"), "[1, 3] 3 5 7");
  EXPECT_EQ(Floats({2, 3}).Ints({-1}).Int("keepdims", 0).Text("ReduceMax"), "[2] 2 5");
  EXPECT_EQ(Floats({2, 3}).Text("ReduceMean"), "[1, 1] 2");
  EXPECT_EQ(Floats({2, 2, 2}).Ints({0, 2}).Int("keepdims", 0).Text("ReduceSumSquare"), "[2] 42 98");
  EXPECT_EQ(Floats({2}).Int("noop_with_empty_axes", 1).Text("ReduceL1"), "[2] 0 1");
  EXPECT_THAT(Floats({2, 0}).Text("ReduceSum"), HasSubstr("without elements"));
  EXPECT_THAT(Floats({2}).Ints({1}).Text("ReduceSum"), HasSubstr("axis 1"));
  EXPECT_FALSE(Floats({100}).Do("ReduceSum", 399).ok());  // as long as it takes
}

TEST_F(FoldTest, OtherOperatorsAreNotFolded) {
  onnx::NodeProto node;
  for (const char* op_type : {"MatMul", "Tile", "Where", "", "slice"}) {
    node.set_op_type(op_type);
    EXPECT_FALSE(IsFoldable(node)) << op_type;
  }
  node.set_op_type("Slice");
  EXPECT_TRUE(IsFoldable(node));
  node.set_domain("com.example");
  EXPECT_FALSE(IsFoldable(node));
}

TEST_F(FoldTest, BytesAreBounded) {
  EXPECT_TRUE(Floats({3}).Floats({2}).Int("axis", 0).Do("Concat", 20).ok());
  EXPECT_EQ(bytes_left_, 0);
  const auto refused = Floats({3}).Floats({2}).Int("axis", 0).Do("Concat", 19);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("[5] (20 bytes)"), HasSubstr("19 bytes are left")));
  EXPECT_EQ(bytes_left_, 19);
  // Shares its input's memory.
  EXPECT_TRUE(Floats({3}).Ints({3, 1}).Do("Reshape", 0).ok());
  EXPECT_EQ(Add<float>(DataType::kFloat, {kMax, 0}, {}).Ints({1, 2}).Text("Gather"), "[2, 0]");
  EXPECT_FALSE(Floats({1}).Add(DataType::kInt64, {1, 1}, std::vector<int64_t>{0}).Do("Gather", 3).ok());
}

}  // namespace
}  // namespace rnnserve
