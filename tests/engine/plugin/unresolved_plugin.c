/* SPDX-License-Identifier: Apache-2.0
 * A plugin that needs a function which no library has. */
#include "engine/plugin/engine_abi.h"

int rnnserve_is_nowhere(void);
const rnnserve_api* rnnserve_engine_api(const rnnserve_handshake* host);

const rnnserve_api* rnnserve_engine_api(const rnnserve_handshake* host) {
  (void)host;
  return rnnserve_is_nowhere() ? (const rnnserve_api*)0 : (const rnnserve_api*)0;
}
