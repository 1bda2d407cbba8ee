// SPDX-License-Identifier: Apache-2.0
// A line on the terminal that rewrites itself; nothing where standard error is no terminal.
#pragma once

#include <unistd.h>

#include <iostream>
#include <ostream>
#include <string>

namespace rnnserve::rnnctl {

class ProgressLine {
 public:
  explicit ProgressLine(std::ostream& err) : err_(err), shown_(&err == &std::cerr && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (shown_) err_ << "\r\033[K" << std::flush;
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const std::string& text) {
    if (shown_) err_ << "\r\033[K" << text << std::flush;
  }

 private:
  std::ostream& err_;
  const bool shown_;
};

}  // namespace rnnserve::rnnctl
