// SPDX-License-Identifier: Apache-2.0
// Answers compressed for callers that ask for it: a scrape is a tenth of its size.
#pragma once

#include <string>
#include <string_view>

namespace rnnserve {

// Whether a caller with this Accept-Encoding (RFC 9110, section 12.5.3) takes gzip.
bool AcceptsGzip(std::string_view accept_encoding);

// "" if there is no memory for it.
std::string Gzip(std::string_view text);

}  // namespace rnnserve
