// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/wav.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t k = 0; k < bytes; ++k) text.push_back(static_cast<char>(value >> (8 * k)));
  return text;
}

std::string Chunk(const std::string& name, const std::string& body, uint32_t size) {
  return absl::StrCat(name, Little(size, 4), body, body.size() % 2 == 0 ? "" : std::string(1, '\0'));
}
std::string Chunk(const std::string& name, const std::string& body) {
  return Chunk(name, body, static_cast<uint32_t>(body.size()));
}

struct Format {
  uint32_t tag = 1, channels = 1, rate = 16000, bits = 16;
  uint32_t block = channels * bits / 8;
};
std::string Fmt(const Format& format) {
  return absl::StrCat(Little(format.tag, 2), Little(format.channels, 2), Little(format.rate, 4),
                      Little(uint64_t{format.rate} * format.block, 4), Little(format.block, 2), Little(format.bits, 2));
}
// WAVE_FORMAT_EXTENSIBLE: valid bits, speakers, sub-format.
std::string Extensible(Format format, uint32_t tag) {
  format.tag = 0xFFFE;
  return absl::StrCat(Fmt(format), Little(22, 2), Little(format.bits, 2), Little(0, 4), Little(tag, 2),
                      std::string("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14));
}
std::string Riff(const std::string& chunks, uint32_t size = 0) {
  return absl::StrCat("RIFF", Little(size, 4), "WAVE", chunks);
}
std::string Pcm16(std::initializer_list<int> samples) {
  std::string bytes;
  for (const int sample : samples) bytes += Little(static_cast<uint16_t>(sample), 2);
  return bytes;
}
std::string Floats(std::initializer_list<float> samples) {
  std::string bytes;
  for (const float sample : samples) bytes += Little(std::bit_cast<uint32_t>(sample), 4);
  return bytes;
}

// All samples, read a few frames at a time, or the error.
absl::StatusOr<std::vector<float>> ReadAllOf(const std::string& bytes, WavFormat* format = nullptr) {
  std::istringstream in(bytes);
  ByteSource source(in, "it.wav");
  WavReader wav(source);
  if (absl::Status opened = wav.Open(); !opened.ok()) return opened;
  if (format != nullptr) *format = wav.format();
  std::vector<float> all;
  for (;;) {
    const absl::StatusOr<std::vector<float>> some = wav.Read(2);
    if (!some.ok()) return some.status();
    if (some->empty()) return all;
    all.insert(all.end(), some->begin(), some->end());
  }
}

std::vector<float> Samples(const std::string& bytes) {
  const absl::StatusOr<std::vector<float>> samples = ReadAllOf(bytes);
  EXPECT_TRUE(samples.ok()) << samples.status();
  return samples.value_or(std::vector<float>());
}

std::string Refusal(const std::string& bytes) {
  const absl::Status status = ReadAllOf(bytes).status();
  EXPECT_TRUE(IsUsageError(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("it.wav: WAV: "));
  return std::string(status.message());
}

TEST(WavTest, SamplesOfEveryWidth) {
  const std::string float64 = Little(std::bit_cast<uint64_t>(-0.75), 8) + Little(std::bit_cast<uint64_t>(3.5), 8);
  EXPECT_THAT(Samples(Riff(Chunk("fmt ", Fmt({.bits = 8})) + Chunk("data", std::string("\x00\x80\xff", 3)))),
              ElementsAre(-1, 0, 127 / 128.F));
  EXPECT_THAT(Samples(Riff(Chunk("fmt ", Fmt({})) + Chunk("data", Pcm16({-32768, 16384, 1})))),
              ElementsAre(-1, 0.5F, 1 / 32768.F));
  EXPECT_THAT(Samples(Riff(Chunk("fmt ", Fmt({.bits = 24})) +
                           Chunk("data", Little(0x800000, 3) + Little(0x000001, 3) + Little(0x400000, 3)))),
              ElementsAre(-1, 1 / 8388608.F, 0.5F));
  EXPECT_THAT(
      Samples(Riff(Chunk("fmt ", Fmt({.bits = 32})) + Chunk("data", Little(0x80000000, 4) + Little(0x20000000, 4)))),
      ElementsAre(-1, 0.25F));
  EXPECT_THAT(Samples(Riff(Chunk("fmt ", Fmt({.tag = 3, .bits = 32})) + Chunk("data", Floats({-2.5F, 0.1F})))),
              ElementsAre(-2.5F, 0.1F));
  EXPECT_THAT(Samples(Riff(Chunk("fmt ", Fmt({.tag = 3, .bits = 64})) + Chunk("data", float64))),
              ElementsAre(-0.75F, 3.5F));
}

TEST(WavTest, TheFormatIsTold) {
  WavFormat format;
  const std::string stereo = Chunk("fmt ", Fmt({.channels = 2, .rate = 44100}));
  EXPECT_THAT(*ReadAllOf(Riff(stereo + Chunk("data", Pcm16({1, 2, 3, 4, 5, 6}))), &format), testing::SizeIs(6));
  EXPECT_EQ(format.Text(), "44100 Hz, 2 channels, 16-bit PCM");
  const std::string extensible = Chunk("fmt ", Extensible({.bits = 32}, 3));
  EXPECT_THAT(*ReadAllOf(Riff(extensible + Chunk("data", Floats({0.25F}))), &format), ElementsAre(0.25F));
  EXPECT_EQ(format.Text(), "16000 Hz, 1 channel, 32-bit float");
}

TEST(WavTest, OtherChunksArePassedOverWithTheirPadding) {
  const std::string chunks = Chunk("LIST", "odd") + Chunk("fmt ", Fmt({}) + Little(0, 2)) + Chunk("fact", "1234") +
                             Chunk("data", Pcm16({16384})) + Chunk("LIST", "INFO") + "rest";
  EXPECT_THAT(Samples(Riff(chunks)), ElementsAre(0.5F));
  EXPECT_THAT(Samples(Riff(Chunk("fmt ", Fmt({})) + Chunk("data", "") + Chunk("LIST", "INFO"))), ElementsAre());
}

TEST(WavTest, SizesOfPipesStandForTheEnd) {
  for (const uint32_t size : {0x7ffff000U, 0x7fffff00U, 0x80000000U, 0xffffffffU - 36, 0xffffffffU}) {
    const std::string wav = Riff(Chunk("fmt ", Fmt({})) + Chunk("data", Pcm16({16384, -16384, 8192}), size), size);
    EXPECT_THAT(Samples(wav), ElementsAre(0.5F, -0.5F, 0.25F)) << size;
    EXPECT_THAT(Samples(wav + "\x01"), ElementsAre(0.5F, -0.5F, 0.25F)) << "half a sample";
  }
}

TEST(WavTest, AnotherRecordingOfTheSameFormatGoesOn) {
  const std::string one = Riff(Chunk("fmt ", Fmt({})) + Chunk("data", Pcm16({16384})) + Chunk("LIST", "INFO"));
  EXPECT_THAT(Samples(one + one), ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(Refusal(one + Riff(Chunk("fmt ", Fmt({.rate = 8000})) + Chunk("data", Pcm16({1})))),
              HasSubstr("a second recording follows, 8000 Hz, 1 channel, 16-bit PCM where the first has 16000 Hz"));
}

TEST(WavTest, WhatIsWrongIsNamed) {
  const std::string fmt = Chunk("fmt ", Fmt({})), data = Chunk("data", Pcm16({1, 2}));
  const std::pair<std::string, const char*> kWrong[] = {
      {"", "begin with RIFF"},
      {"RIFF", "begin with RIFF"},
      {"RIFX....WAVE", "begin with RIFF"},
      {absl::StrCat("RIFF", Little(4, 4), "AVI ", fmt, data), "RIFF form is \"AVI \""},
      {Riff(""), "ends before a data chunk"},
      {Riff(fmt), "ends before a data chunk"},
      {Riff(data + fmt), "data chunk comes before the fmt chunk"},
      {Riff(fmt).substr(0, 30), "ends within the fmt chunk"},
      {Riff(Chunk("fmt ", Fmt({}).substr(0, 14)) + data), "fmt chunk: 14 bytes"},
      {Riff(Chunk("fmt ", Fmt({}), 0xffffffff) + data), "ends within the fmt chunk"},
      {Riff(Chunk("LIST", "", 0xffffffff) + fmt + data), "ends before a data chunk"},
      {Riff(Chunk("fmt ", Extensible({}, 1).substr(0, 18)) + data), "18 bytes, expected 40"},
      {Riff(Chunk("fmt ", Fmt({.tag = 0xFFFE})) + data), "expected 40 for WAVE_FORMAT_EXTENSIBLE"},
      {Riff(Chunk("fmt ", Extensible({}, 7)) + data), "format is 7 (mu-law)"},
      {Riff(Chunk("fmt ", Extensible({}, 1).replace(30, 1, "x")) + data), "format is 0"},
      {Riff(Chunk("fmt ", Fmt({.tag = 6, .bits = 8})) + data), "format is 6 (A-law)"},
      {Riff(Chunk("fmt ", Fmt({.bits = 12, .block = 2})) + data), "12 bits a sample"},
      {Riff(Chunk("fmt ", Fmt({.tag = 3, .bits = 16})) + data), "16 bits a sample, expected 32 or 64"},
      {Riff(Chunk("fmt ", Fmt({.bits = 0, .block = 0})) + data), "0 bits a sample"},
      {Riff(Chunk("fmt ", Fmt({.channels = 0})) + data), "0 channels"},
      {Riff(Chunk("fmt ", Fmt({.rate = 0})) + data), "0 samples a second"},
      {Riff(Chunk("fmt ", Fmt({.block = 4})) + data), "4 bytes a frame (block align), but 1 samples of 16 bits take 2"},
      {Riff(fmt + Chunk("data", "123")), "data chunk: 3 bytes, which is no multiple of the 2 of a frame"},
      {Riff(fmt + Chunk("data", Pcm16({1, 2}), 8)), "the data chunk says 8 bytes, 4 of them are missing"},
      {Riff(fmt + Chunk("data", Pcm16({1, 2, 3, 4, 5}), 0)), "data chunk: 0 bytes, but bytes follow"},
      {Riff(fmt + Pcm16({1, 2, 3, 4, 5})), "no chunk where one is expected"},
  };
  for (const auto& [bytes, text] : kWrong) EXPECT_THAT(Refusal(bytes), HasSubstr(text));
}

}  // namespace
}  // namespace rnnserve::rnnctl
