// SPDX-License-Identifier: Apache-2.0
// Included before everything else by what uses protobuf under ThreadSanitizer. protobuf's maps get two members more
// there, which the installed library knows nothing of: every message with a map would crash. So its headers are read as
// the library was compiled; the standard library's are not, which has to know of ThreadSanitizer.
#pragma once

#if defined(__cplusplus) && defined(__SANITIZE_THREAD__)
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#undef __SANITIZE_THREAD__
#include <google/protobuf/map_field.h>
#define __SANITIZE_THREAD__ 1
#endif
