// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/wav.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {
namespace {

constexpr uint32_t kPcm = 1;
constexpr uint32_t kFloat = 3;
constexpr uint32_t kExtensible = 0xFFFE;
// Of every sub-format that stands for a format's number: its GUID behind the first two bytes.
constexpr std::string_view kSubFormatTail("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71", 14);
constexpr uint32_t kShortFormat = 16;
constexpr uint32_t kLongFormat = 40;
// What programs write that do not know the size: sox 0x7ffff000, arecord 0x80000000, ffmpeg 0xffffffff, each perhaps
// less the header.
constexpr uint32_t kSizeUnknown = 0x7fff0000;
constexpr char kHowToConvert[] = "; convert it: sox IN.wav -b 16 -e signed-integer OUT.wav";

template <typename Number>
Number LittleEndian(std::string_view bytes, size_t at) {
  Number number = 0;
  for (size_t k = 0; k < sizeof(Number); ++k) {
    number |= static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(bytes[at + k])) << (8 * k));
  }
  return number;
}

uint32_t Word(std::string_view bytes, size_t at) { return LittleEndian<uint16_t>(bytes, at); }

// `bytes` of them, the most significant ones of 32 bits.
float PcmSample(std::string_view data, size_t at, size_t bytes) {
  uint32_t bits = 0;
  for (size_t k = 0; k < bytes; ++k) {
    bits |= static_cast<uint32_t>(static_cast<unsigned char>(data[at + k])) << (32 - 8 * (bytes - k));
  }
  if (bytes == 1) bits ^= uint32_t{1} << 31;
  return std::ldexp(static_cast<float>(static_cast<int32_t>(bits)), -31);
}

float FloatSample(std::string_view data, size_t at, size_t bytes) {
  if (bytes == sizeof(float)) return std::bit_cast<float>(LittleEndian<uint32_t>(data, at));
  return static_cast<float>(std::bit_cast<double>(LittleEndian<uint64_t>(data, at)));
}

bool IsChunkName(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); });
}

std::string FormatName(uint32_t tag) {
  constexpr std::pair<uint32_t, const char*> kNames[] = {{2, "ADPCM"}, {6, "A-law"}, {7, "mu-law"}, {0x55, "MP3"}};
  for (const auto& [known, name] : kNames) {
    if (known == tag) return absl::StrCat(tag, " (", name, ")");
  }
  return absl::StrCat(tag);
}

}  // namespace

std::string WavFormat::Text() const {
  return absl::StrCat(rate, " Hz, ", channels, channels == 1 ? " channel, " : " channels, ", bits,
                      is_float ? "-bit float" : "-bit PCM");
}

absl::Status WavReader::Wrong(const std::string& what) const {
  return UsageError(absl::StrCat(source_.name(), ": WAV: ", what));
}

absl::Status WavReader::Open() {
  const std::string_view begin = source_.Peek(12);
  if (begin.size() < 12 || begin.substr(0, 4) != "RIFF") {
    return Wrong("expected it to begin with RIFF, a size and WAVE; --format=raw takes bare float32 values");
  }
  RETURN_IF_ERROR(NextData().status());
  return data_bytes_ ? absl::OkStatus() : Wrong("the input ends before a data chunk has come");
}

absl::Status WavReader::ReadFormat(uint32_t size) {
  const uint32_t used = std::min(size, kLongFormat);
  const std::string chunk = source_.Read(used);
  if (chunk.size() < used) return Wrong("the input ends within the fmt chunk");
  if (size < kShortFormat) return Wrong(absl::StrCat("fmt chunk: ", size, " bytes, expected 16 or more"));
  source_.Skip(size - used + size % 2);
  uint32_t tag = Word(chunk, 0);
  if (tag == kExtensible) {
    if (size < kLongFormat) {
      return Wrong(absl::StrCat("fmt chunk: ", size, " bytes, expected 40 for WAVE_FORMAT_EXTENSIBLE"));
    }
    tag = std::string_view(chunk).substr(26) == kSubFormatTail ? Word(chunk, 24) : 0;
  }
  WavFormat format = {.is_float = tag == kFloat,
                      .bits = Word(chunk, 14),
                      .channels = Word(chunk, 2),
                      .rate = LittleEndian<uint32_t>(chunk, 4)};
  if (tag != kPcm && tag != kFloat) {
    return Wrong(
        absl::StrCat("fmt chunk: format is ", FormatName(tag), ", expected 1 (PCM) or 3 (float)", kHowToConvert));
  }
  const bool known = format.is_float ? format.bits == 32 || format.bits == 64
                                     : format.bits % 8 == 0 && format.bits >= 8 && format.bits <= 32;
  if (!known) {
    return Wrong(absl::StrCat("fmt chunk: ", format.bits, " bits a sample, expected ",
                              format.is_float ? "32 or 64 of floats" : "8, 16, 24 or 32 of PCM", kHowToConvert));
  }
  if (format.channels == 0) return Wrong("fmt chunk: 0 channels");
  if (format.rate == 0) return Wrong("fmt chunk: 0 samples a second");
  if (const uint32_t block = Word(chunk, 12); block != format.frame_bytes()) {
    return Wrong(absl::StrCat("fmt chunk: ", block, " bytes a frame (block align), but ", format.channels,
                              " samples of ", format.bits, " bits take ", format.frame_bytes()));
  }
  if (format_ && *format_ != format) {
    return Wrong(absl::StrCat("a second recording follows, ", format.Text(), " where the first has ", format_->Text()));
  }
  format_ = format;
  return absl::OkStatus();
}

absl::StatusOr<bool> WavReader::NextData() {
  if (data_bytes_ && *data_bytes_ < kSizeUnknown) source_.Skip(*data_bytes_ % 2);
  for (;;) {
    const std::string chunk = source_.Read(8);
    if (chunk.size() < 8) return false;
    const std::string_view name = std::string_view(chunk).substr(0, 4);
    const auto size = LittleEndian<uint32_t>(chunk, 4);
    if (name == "RIFF") {
      if (const std::string form = source_.Read(4); form != "WAVE") {
        return Wrong(absl::StrCat("RIFF form is \"", absl::string_view(form), "\", expected \"WAVE\""));
      }
    } else if (name == "fmt ") {
      RETURN_IF_ERROR(ReadFormat(size));
    } else if (name == "data") {
      if (!format_) return Wrong("the data chunk comes before the fmt chunk");
      if (size < kSizeUnknown && size % format_->frame_bytes() != 0) {
        return Wrong(absl::StrCat("data chunk: ", size, " bytes, which is no multiple of the ", format_->frame_bytes(),
                                  " of a frame"));
      }
      data_bytes_ = size;
      left_ = size;
      if (size > 0) return true;
    } else if (IsChunkName(name)) {
      source_.Skip(size_t{size} + size % 2);
    } else if (data_bytes_ == uint32_t{0}) {
      return Wrong("data chunk: 0 bytes, but bytes follow; a program that does not know the size writes 0xffffffff");
    } else {
      return data_bytes_ ? absl::StatusOr<bool>(false) : Wrong("no chunk where one is expected");
    }
  }
}

absl::StatusOr<std::vector<float>> WavReader::Read(size_t frames) {
  const auto frame_bytes = static_cast<size_t>(format_->frame_bytes());
  std::string bytes;
  while (bytes.size() < frames * frame_bytes) {
    const bool is_open = *data_bytes_ >= kSizeUnknown;
    if (left_ == 0) {
      if (const std::string_view next = source_.Peek(4); is_open && !next.empty() && next != "RIFF" && next != "LIST") {
        return Wrong(absl::StrCat("more follows than the ", *data_bytes_,
                                  " bytes of the data chunk; endless input comes ",
                                  "as bare float32 values with --format=raw"));
      }
      ASSIGN_OR_RETURN(const bool more, NextData());
      if (!more) break;
      continue;
    }
    const size_t wanted = std::min<size_t>(left_, frames * frame_bytes - bytes.size());
    const std::string piece = source_.Read(wanted);
    bytes.append(piece);
    left_ -= static_cast<uint32_t>(piece.size());
    if (piece.size() == wanted) continue;
    if (!is_open) {
      return Wrong(absl::StrCat("the input is cut off: the data chunk says ", *data_bytes_, " bytes, ", left_,
                                " of them are missing"));
    }
    left_ = 0;
    break;
  }
  if (source_.failed()) return UsageError(absl::StrCat("cannot read ", source_.name()));
  const size_t sample_bytes = static_cast<size_t>(format_->bits / 8);
  std::vector<float> samples(bytes.size() / frame_bytes * static_cast<size_t>(format_->channels));
  for (size_t k = 0; k < samples.size(); ++k) {
    samples[k] = format_->is_float ? FloatSample(bytes, k * sample_bytes, sample_bytes)
                                   : PcmSample(bytes, k * sample_bytes, sample_bytes);
  }
  return samples;
}

}  // namespace rnnserve::rnnctl
