// SPDX-License-Identifier: Apache-2.0
// Writes of records a second to a Redis that runs already, beside which redis-benchmark may be asked the same:
//
//   redis-server --port 7000 --save '' &
//   build/release/tests/bench/store_bench redis://127.0.0.1:7000 4096
//   redis-benchmark -p 7000 -t set -d 4096 -c 1 -P 1 -n 50000      # and -c 64, -c 1000; or -c 1 -P 64
//
// Each session has one write in flight, and begins the next one when that is done.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "base/steady_now.h"
#include "server/store/redis_store.h"

namespace rnnserve {
namespace {

constexpr absl::Duration kRun = absl::Seconds(3);

double CpuSeconds() {
  rusage used = {};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// All sessions of a run, on the store's thread but for the first write of each.
class Run {
 public:
  Run(SessionStore& store, int sessions, size_t bytes)
      : store_(store), record_(bytes, 'x'), end_(SteadyNow() + kRun), left_(sessions) {}

  // Microseconds of each write, sorted.
  std::vector<double> Go() {
    for (int i = left_; i > 0; --i) Write(i);
    done_.get_future().wait();
    std::sort(times_.begin(), times_.end());
    return std::move(times_);
  }

 private:
  void Write(int session) {
    SessionStore::WriteRequest request = {
        .id = {}, .fence = {.owner = {7}}, .record = record_, .deadline = end_ + kRun};
    for (size_t i = 0; i < 4; ++i) request.id.bytes[i] = static_cast<uint8_t>(session >> (8 * i));
    for (size_t i = 0; i < 4; ++i) request.id.bytes[4 + i] = static_cast<uint8_t>(getpid() >> (8 * i));
    const absl::Time start = SteadyNow();
    store_.Write(std::move(request), [this, session, start](const absl::StatusOr<SessionStore::Written>& written) {
      if (!written.ok()) {
        std::fprintf(stderr, "%s\n", written.status().ToString().c_str());
        std::exit(1);
      }
      const absl::Time now = SteadyNow();
      times_.push_back(absl::ToDoubleMicroseconds(now - start));
      if (now < end_) return Write(session);
      if (--left_ == 0) done_.set_value();
    });
  }

  SessionStore& store_;
  const std::string record_;
  const absl::Time end_;
  std::atomic<int> left_;
  std::vector<double> times_;
  std::promise<void> done_;
};

int Main(const char* url, size_t bytes) {
  const absl::StatusOr<StoreAddress> address = ParseStoreAddress(url);
  if (!address.ok()) {
    std::fprintf(stderr, "%s\n", address.status().ToString().c_str());
    return 1;
  }
  const auto store = RedisStore::Create({.address = *address});
  if (!store.ok()) return 1;
  for (const int sessions : {1, 64, 1000}) {
    const double cpu = CpuSeconds();
    const std::vector<double> times = Run(**store, sessions, bytes).Go();
    const double count = static_cast<double>(times.size());
    std::printf("%4d sessions, %zu bytes: %8.0f writes/s, p50 %.0f us, p99 %.0f us, CPU %.1f us a write\n", sessions,
                bytes, count / absl::ToDoubleSeconds(kRun), times[times.size() / 2], times[times.size() * 99 / 100],
                1e6 * (CpuSeconds() - cpu) / count);
  }
  return 0;
}

}  // namespace
}  // namespace rnnserve

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: store_bench URL BYTES\n");
    return 2;
  }
  return rnnserve::Main(argv[1], static_cast<size_t>(std::atoll(argv[2])));
}
