// SPDX-License-Identifier: Apache-2.0
// Calls of an engine with what came out of the host reference, written by the ordinary tests (tests/engine/cuda) and
// replayed by cuda_selftest on a machine that has neither them nor the reference. Native byte order, one file for one
// build of the ABI.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/plugin/engine_abi.h"

namespace rnnserve::selftest {

struct RecordedSlice {
  int64_t steps = 0;
  uint8_t reverse = 0;  // memory order against processing order
  uint8_t wants_y = 0;
  uint8_t has_before = 0;
  std::vector<uint8_t> x;    // [steps, I] of the data type, in processing order
  std::vector<double> h, c;  // before; of H values each, c empty but for an LSTM
  std::vector<double> y;     // [steps, H] if wanted, in processing order
  std::vector<double> h_after, c_after;
};

struct RecordedCall {
  rnnserve_cell cell{};
  double tolerance = 0;
  std::string description;
  std::vector<double> w, r, wb, rb, p;
  std::vector<RecordedSlice> slices;
};

namespace case_file_internal {

constexpr char kMagic[16] = "rnnserve cases1";
// No list of a case is longer; what a damaged file says is not allocated.
constexpr uint64_t kMostElements = uint64_t{1} << 26;

// Both directions in one text: what is written is what is read.
class Writer {
 public:
  explicit Writer(std::FILE* file) : file_(file) {}
  template <typename T>
  void Value(const T& value) {
    good_ = good_ && std::fwrite(&value, sizeof value, 1, file_) == 1;
  }
  template <typename List>
  void Elements(const List& list) {
    Value(static_cast<uint64_t>(list.size()));
    if (list.empty()) return;  // its data may be a null pointer, which fwrite must not see
    good_ = good_ && std::fwrite(list.data(), sizeof list[0], list.size(), file_) == list.size();
  }
  template <typename T, typename Fn>
  void Each(const std::vector<T>& list, Fn fn) {
    Value(static_cast<uint64_t>(list.size()));
    for (const T& item : list) fn(*this, item);
  }
  bool good() const { return good_; }

 private:
  std::FILE* file_;
  bool good_ = true;
};

class Reader {
 public:
  explicit Reader(std::FILE* file) : file_(file) {}
  template <typename T>
  void Value(T& value) {
    good_ = good_ && std::fread(&value, sizeof value, 1, file_) == 1;
  }
  template <typename List>
  void Elements(List& list) {
    list.resize(Size());
    if (list.empty()) return;
    good_ = good_ && std::fread(list.data(), sizeof list[0], list.size(), file_) == list.size();
  }
  template <typename T, typename Fn>
  void Each(std::vector<T>& list, Fn fn) {
    for (uint64_t left = Size(); left > 0 && good_; --left) fn(*this, list.emplace_back());
  }
  bool good() const { return good_; }

 private:
  size_t Size() {
    uint64_t size = 0;
    Value(size);
    good_ = good_ && size <= kMostElements;
    return good_ ? static_cast<size_t>(size) : 0;
  }
  std::FILE* file_;
  bool good_ = true;
};

template <typename Stream, typename Slice>
void PassSlice(Stream& stream, Slice& slice) {
  stream.Value(slice.steps);
  stream.Value(slice.reverse);
  stream.Value(slice.wants_y);
  stream.Value(slice.has_before);
  stream.Elements(slice.x);
  for (auto* list : {&slice.h, &slice.c, &slice.y, &slice.h_after, &slice.c_after}) stream.Elements(*list);
}

template <typename Stream, typename Call>
void PassCall(Stream& stream, Call& call) {
  stream.Value(call.cell);
  stream.Value(call.tolerance);
  stream.Elements(call.description);
  for (auto* list : {&call.w, &call.r, &call.wb, &call.rb, &call.p}) stream.Elements(*list);
  stream.Each(call.slices, [](auto& s, auto& slice) { PassSlice(s, slice); });
}

}  // namespace case_file_internal

// False: the disk is full, or the like.
inline bool WriteCalls(std::FILE* file, const std::vector<RecordedCall>& calls) {
  case_file_internal::Writer writer(file);
  writer.Value(case_file_internal::kMagic);
  writer.Value(static_cast<uint32_t>(sizeof(rnnserve_cell)));
  writer.Each(calls, [](auto& w, auto& call) { case_file_internal::PassCall(w, call); });
  return writer.good();
}

// Empty if all went well, else why not.
inline std::string ReadCalls(std::FILE* file, std::vector<RecordedCall>& calls) {
  case_file_internal::Reader reader(file);
  char magic[sizeof case_file_internal::kMagic] = {};
  uint32_t cell_bytes = 0;
  reader.Value(magic);
  reader.Value(cell_bytes);
  if (!reader.good() || std::string(magic, sizeof magic) != std::string(case_file_internal::kMagic, sizeof magic) ||
      cell_bytes != sizeof(rnnserve_cell)) {
    return "it is no file of cases for this build; write it anew with cuda_cases_test";
  }
  reader.Each(calls, [](auto& r, auto& call) { case_file_internal::PassCall(r, call); });
  return reader.good() ? "" : "it ends early or is damaged";
}

}  // namespace rnnserve::selftest
