// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_library.h"

#include <civetweb.h>

#include <mutex>

namespace rnnserve {

void InitHttpLibrary() {
  static std::once_flag once;
  std::call_once(once, [] { mg_init_library(MG_FEATURES_DEFAULT); });
}

}  // namespace rnnserve
