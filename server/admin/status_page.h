// SPDX-License-Identifier: Apache-2.0
// status_page.html, as the build puts it into the program.
#pragma once

#include <string_view>

namespace rnnserve {

extern const std::string_view kStatusPage;

}  // namespace rnnserve
