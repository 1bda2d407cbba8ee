// SPDX-License-Identifier: Apache-2.0
// civetweb's own counting of its users is not thread-safe: each user of it calls this first.
#pragma once

namespace rnnserve {

void InitHttpLibrary();

}  // namespace rnnserve
