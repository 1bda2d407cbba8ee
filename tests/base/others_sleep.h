// SPDX-License-Identifier: Apache-2.0
// Waits for threads that no test can join.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace rnnserve {

// Returns once each other thread of this process sleeps (state S in proc(5), /proc/[pid]/task/[tid]/stat): what it had
// begun has ended, up to its next wait. A thread that waits for a CPU does not sleep.
inline void WaitUntilOthersSleep() {
  const auto busy = [](const std::filesystem::directory_entry& task) {
    if (task.path().filename() == std::to_string(gettid())) return false;
    std::ifstream file(task.path() / "stat");
    std::string stat;  // stays empty where the thread ends just now
    std::getline(file, stat);
    const size_t name_end = stat.rfind(')');  // a name may have brackets of its own
    return name_end + 2 < stat.size() && stat[name_end + 2] != 'S';
  };
  while (std::ranges::any_of(std::filesystem::directory_iterator("/proc/self/task"), busy)) std::this_thread::yield();
}

}  // namespace rnnserve
