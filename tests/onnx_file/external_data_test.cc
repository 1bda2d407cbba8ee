// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "onnx_file/loader.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// A repository with one model whose W (8 bytes) lies outside the file.
class OnnxExternalData : public testing::Test {
 protected:
  using Entries = std::vector<std::pair<std::string, std::string>>;

  absl::StatusOr<OnnxOperator> Load(const Entries& entries) const {
    onnx::ModelProto model = SmallModel("RNN", 14);
    onnx::TensorProto& w = *model.mutable_graph()->mutable_initializer(0);
    w.clear_float_data();
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      onnx::StringStringEntryProto& entry = *w.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    top_.Write("repository/m/1/model.onnx", model.SerializeAsString());
    return LoadLayer(*Folder::Open(top_.path("repository"))->OpenFolder("m")->OpenFolder("1"));
  }

  std::string Refusal(const Entries& entries) const {
    const absl::Status status = Load(entries).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  }

  void Write(const std::string& below, const std::string& bytes) const { top_.Write("repository/m/1/" + below, bytes); }
  void Link(const std::string& target, const std::string& below) const {
    fs::create_directories(top_.path("repository/m/1"));
    fs::create_symlink(target, top_.path("repository/m/1/" + below));
  }

  TemporaryFolder top_;
  const std::string data_ = RawBytes(FloatTensor("", {2}));
};

TEST_F(OnnxExternalData, WholeFileOrPart) {
  Write("weights.bin", data_);
  Write("deep/er/weights.bin", "xx" + data_ + "yy");
  const std::vector<Entries> good = {
      {{"location", "weights.bin"}},
      {{"location", "./weights.bin"}},
      {{"location", "weights.bin"}, {"offset", "0"}, {"length", "8"}, {"checksum", "not looked at"}},
      {{"location", "deep/er/weights.bin"}, {"offset", "2"}, {"length", "8"}}};
  for (const Entries& entries : good) {
    const auto loaded = Load(entries);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto bytes = loaded->weights[0].tensor.data;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), data_);
  }
}

TEST_F(OnnxExternalData, SizesThatDoNotFit) {
  Write("w", data_ + "yy");
  EXPECT_THAT(Refusal({{"location", "w"}}), HasSubstr("needs 8 bytes by its shape"));
  EXPECT_THAT(Refusal({{"location", "w"}, {"length", "10"}}), HasSubstr("have 10"));
  EXPECT_THAT(Refusal({{"location", "w"}, {"offset", "3"}}), HasSubstr("have 7"));
  EXPECT_THAT(Refusal({{"location", "w"}, {"offset", "3"}, {"length", "8"}}), HasSubstr("the file has 10 bytes"));
  EXPECT_THAT(Refusal({{"location", "w"}, {"offset", "11"}, {"length", "8"}}), HasSubstr("the file has 10 bytes"));
  EXPECT_THAT(Refusal({{"location", "w"}, {"offset", "11"}}), HasSubstr("have 0"));
  EXPECT_THAT(Refusal({{"location", "w"}, {"offset", "9223372036854775807"}, {"length", "8"}}),
              HasSubstr("the file has 10 bytes"));
}

TEST_F(OnnxExternalData, NumbersThatAreNone) {
  Write("w", data_);
  for (const std::string number : {"-1", "", "8x", " 0", "0x8", "9223372036854775808", "1e3"}) {
    EXPECT_THAT(Refusal({{"location", "w"}, {"offset", number}}), HasSubstr("external_data offset"));
    EXPECT_THAT(Refusal({{"location", "w"}, {"length", number}}), HasSubstr("external_data length"));
  }
  EXPECT_THAT(Refusal({{"location", "w"}, {"location", "w"}}), HasSubstr("twice"));
}

TEST_F(OnnxExternalData, PathsThatLeadOut) {
  top_.Write("outside.bin", data_);
  top_.Write("repository/outside.bin", data_);
  top_.Write("repository/m/1-other/w", data_);
  Write("sub/w", data_);
  EXPECT_THAT(Refusal({}), HasSubstr("is empty"));
  EXPECT_THAT(Refusal({{"location", ""}}), HasSubstr("is empty"));
  EXPECT_THAT(Refusal({{"location", top_.path("outside.bin")}}), HasSubstr("is absolute"));
  EXPECT_THAT(Refusal({{"location", top_.path("repository/m/1/sub/w")}}), HasSubstr("is absolute"));
  for (const std::string path : {"../../../outside.bin", "../../outside.bin", "sub/../../../outside.bin", "..",
                                 "sub/../sub/w", "../1-other/w"}) {
    EXPECT_THAT(Refusal({{"location", path}}), HasSubstr("holds \"..\""));
  }
  EXPECT_THAT(Refusal({{"location", std::string("sub/w\0x", 7)}}), HasSubstr("zero byte"));
  EXPECT_THAT(Refusal({{"location", std::string(10000, 'a')}}), HasSubstr("longer"));
  EXPECT_THAT(Refusal({{"location", std::string(1000, 'a')}}), HasSubstr("cannot be opened"));
}

TEST_F(OnnxExternalData, LinksThatLeadOut) {
  top_.Write("outside/w", data_);
  top_.Write("repository/outside/w", data_);
  top_.Write("repository/m/1-other/w", data_);
  Link(top_.path("outside/w"), "absolute");
  Link("../../../outside/w", "relative");
  Link("../../outside", "folder");
  Link("../1-other/w", "sibling");
  Link("relative", "twice");
  Link("/", "root");
  Link("/dev/zero", "device");
  for (const std::string path : {"absolute", "relative", "folder/w", "sibling", "twice", "root/etc/passwd", "device"}) {
    EXPECT_THAT(Refusal({{"location", path}}), HasSubstr("leads out")) << path;
  }
}

TEST_F(OnnxExternalData, LinksThatStayInside) {
  Write("sub/w", data_);
  Link("sub", "folder");
  Link("folder/w", "file");
  EXPECT_TRUE(Load({{"location", "folder/w"}}).ok());
  EXPECT_TRUE(Load({{"location", "file"}}).ok());
}

TEST_F(OnnxExternalData, WhatIsNoFile) {
  Write("sub/w", data_);
  Link("loop", "loop");
  ASSERT_EQ(mkfifo(top_.path("repository/m/1/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal({{"location", "missing"}}), HasSubstr("\"missing\", which does not exist"));
  EXPECT_THAT(Refusal({{"location", "loop"}}), HasSubstr("cannot be opened"));
  EXPECT_THAT(Refusal({{"location", "sub"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(Refusal({{"location", "pipe"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(Refusal({{"location", "sub/w/x"}}), HasSubstr("not a folder"));
}

}  // namespace
}  // namespace rnnserve
