// SPDX-License-Identifier: Apache-2.0
// A stream of bytes whose beginning may be looked at before it is read. Reads no further than asked: a slow
// source's first step is not delayed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <istream>
#include <string>
#include <string_view>
#include <utility>

namespace rnnserve::rnnctl {

class ByteSource {
 public:
  // `name` is for errors. `in` outlives it.
  ByteSource(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

  // The next `count` bytes, which the next Read gives again; fewer at the end. Until the next call.
  std::string_view Peek(size_t count) {
    if (ahead_.size() < count) {
      const size_t had = ahead_.size();
      ahead_.resize(count);
      in_.read(ahead_.data() + had, static_cast<std::streamsize>(count - had));
      ahead_.resize(had + static_cast<size_t>(in_.gcount()));
    }
    return std::string_view(ahead_).substr(0, count);
  }
  // The next `count` bytes; fewer at the end.
  std::string Read(size_t count) {
    std::string bytes(count, '\0');
    const size_t had = ahead_.copy(bytes.data(), count);
    ahead_.erase(0, had);
    if (had < count) {
      in_.read(bytes.data() + had, static_cast<std::streamsize>(count - had));
      bytes.resize(had + static_cast<size_t>(in_.gcount()));
    }
    return bytes;
  }
  void Skip(size_t count) {
    const size_t had = std::min(count, ahead_.size());
    ahead_.erase(0, had);
    if (had < count) in_.ignore(static_cast<std::streamsize>(count - had));
  }
  // Reading has failed, and not ended.
  bool failed() const { return in_.bad(); }
  const std::string& name() const { return name_; }
  // All that is left.
  std::istream& rest() { return in_; }

 private:
  std::istream& in_;
  const std::string name_;
  std::string ahead_;
};

}  // namespace rnnserve::rnnctl
