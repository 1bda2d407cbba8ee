// SPDX-License-Identifier: Apache-2.0
// Samples of WAV files (RIFF/WAVE: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, and
// WAVEFORMATEXTENSIBLE), also from pipes, whose writers cannot know their sizes.
//
//   WavReader wav(source);
//   if (absl::Status opened = wav.Open(); !opened.ok()) return opened;
//   absl::StatusOr<std::vector<float>> samples = wav.Read(160);  // channel by channel of each moment
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/rnnctl/stream/byte_source.h"

namespace rnnserve::rnnctl {

struct WavFormat {
  bool is_float = false;  // else PCM, unsigned if 8 bits
  int64_t bits = 0;       // of a sample: 8, 16, 24, 32; floats 32, 64
  int64_t channels = 0;
  int64_t rate = 0;  // samples of a channel in a second

  int64_t frame_bytes() const { return channels * bits / 8; }
  // "16000 Hz, 1 channel, 16-bit PCM"
  std::string Text() const;
  bool operator==(const WavFormat&) const = default;
};

// Every error is a UsageError that names the source and the part of the file that is wrong. Whatever the bytes: no more
// memory than Read is asked for.
class WavReader {
 public:
  // `source` outlives it.
  explicit WavReader(ByteSource& source) : source_(source) {}

  // Reads up to the first sample.
  absl::Status Open();
  // Once it is open.
  const WavFormat& format() const { return *format_; }
  // The next frames (a sample of each channel), PCM scaled to [-1, 1), floats as they are; fewer at the end only.
  // A size of about 2^31 or more means "perhaps less": arecord, sox and ffmpeg write one into pipes. Behind the samples
  // another recording of the same format may follow, and goes on where they end: arecord begins one every 2^31 bytes.
  absl::StatusOr<std::vector<float>> Read(size_t frames);

 private:
  absl::Status Wrong(const std::string& what) const;
  absl::Status ReadFormat(uint32_t size);
  // Goes to the samples of the next data chunk; false: there is none.
  absl::StatusOr<bool> NextData();

  ByteSource& source_;
  std::optional<WavFormat> format_;
  std::optional<uint32_t> data_bytes_;  // of the data chunk, as it says
  uint32_t left_ = 0;                   // of them, to be read
};

}  // namespace rnnserve::rnnctl
