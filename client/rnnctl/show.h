// SPDX-License-Identifier: Apache-2.0
// Results as text for people: columns, tensors in one line each, models.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/types.h"

namespace rnnserve::rnnctl {

// Left-aligned columns, two spaces apart, no spaces at line ends.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// Text from the server on its way to a terminal: control characters become '?', line breaks and tabs stay.
std::string Printable(std::string_view text);

// A time as people read it, rounded to the smaller of its units: "3.2s", "10m00s", "2h05m".
// Below zero: "0.0s".
std::string ShowTime(std::chrono::nanoseconds time);

inline double Milliseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

// "800 B", "1.5 MiB".
std::string ShowBytes(int64_t bytes);

// `files`: paths of the outputs, or empty. `values`: how many elements of each output to show.
std::string ShowResult(const client::InferResult& result, const std::vector<std::string>& files, size_t values);

std::string ShowModels(const client::ModelList& list);
std::string ShowModel(const client::ModelInfo& model);

}  // namespace rnnserve::rnnctl
