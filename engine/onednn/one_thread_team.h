// SPDX-License-Identifier: Apache-2.0
// oneDNN spreads its loops over an OpenMP team of the calling thread, and remembers the team's size in what it creates.
// The server runs many requests side by side instead: while one of these lives, the calling thread's team is itself.
#pragma once

#include <omp.h>

namespace rnnserve::onednn {

class OneThreadTeam {
 public:
  OneThreadTeam() { omp_set_num_threads(1); }
  ~OneThreadTeam() { omp_set_num_threads(before_); }
  OneThreadTeam(const OneThreadTeam&) = delete;
  OneThreadTeam& operator=(const OneThreadTeam&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

}  // namespace rnnserve::onednn
