// SPDX-License-Identifier: Apache-2.0
#include "server/admin/gzip.h"

#include <zlib.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rnnserve {
namespace {

constexpr int kLargestWindow = 15;
constexpr int kGzipHeader = 16;  // zlib: added to the window's bits
constexpr int kMemoryLevel = 8;  // zlib's default

// Of one coding, such as "gzip" or "gzip;q=0.5".
bool IsRefused(absl::string_view parameters) {
  parameters = absl::StripAsciiWhitespace(parameters);
  double weight = 1;
  return absl::ConsumePrefix(&parameters, "q=") && (!absl::SimpleAtod(parameters, &weight) || weight <= 0);
}

}  // namespace

bool AcceptsGzip(std::string_view accept_encoding) {
  bool takes_any = false;
  for (const absl::string_view coding :
       absl::StrSplit(absl::string_view(accept_encoding.data(), accept_encoding.size()), ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(coding, absl::MaxSplits(';', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    if (absl::EqualsIgnoreCase(name, "gzip")) return !IsRefused(parts.second);
    takes_any |= name == "*" && !IsRefused(parts.second);
  }
  return takes_any;
}

std::string Gzip(std::string_view text) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kLargestWindow + kGzipHeader, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return "";
  }
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  compressed.resize(is_whole ? stream.total_out : 0);
  deflateEnd(&stream);
  return compressed;
}

}  // namespace rnnserve
