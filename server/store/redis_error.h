// SPDX-License-Identifier: Apache-2.0
// What an error of a Redis means for the request that met it.
//
//   ReadRedisError("MOVED 3999 127.0.0.1:6381").kind    // kMoved, to 127.0.0.1:6381
#pragma once

#include <string>
#include <string_view>

#include "server/store/store_address.h"

namespace rnnserve {

struct RedisError {
  enum class Kind {
    kOther,
    kRetry,     // passes by itself: loading, a failover, a script that runs
    kReplica,   // another one is the master by now
    kFull,      // maxmemory
    kNoScript,  // the script is to be sent whole
    kMoved,     // another node of the cluster has the slot
    kAsk,       // another node has this key, while the slot moves
    kAuth,      // password, user or permission
  };
  Kind kind = Kind::kOther;
  std::string text;   // for people: printable, at most 200 bytes
  StoreHost to = {};  // of kMoved and kAsk; no host: the same one as of the node that answered
};

RedisError ReadRedisError(std::string_view text);

}  // namespace rnnserve
