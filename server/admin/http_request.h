// SPDX-License-Identifier: Apache-2.0
// The first line of an HTTP/1 request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rnnserve {

struct HttpRequest {
  std::string method;
  // Without the query, %41 decoded to A, not normalised: /a/../b is a path of its own. "" if the target has none that
  // could be a page's, such as * or /%zz.
  std::string path;
};

// Nothing for what is no such line. A target with its host (GET http://host/metrics, as to a proxy) is taken for its
// path, as RFC 9112, section 3.2.2, wants of servers.
std::optional<HttpRequest> ParseRequestLine(std::string_view line);

}  // namespace rnnserve
