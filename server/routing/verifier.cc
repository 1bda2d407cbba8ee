// SPDX-License-Identifier: Apache-2.0
#include "server/routing/verifier.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/float16.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::infinity();

// Ten times what one step may differ by; long sequences add up.
double Tolerance(DataType type, WeightType weights) {
  if (weights == WeightType::kBFloat16 || weights == WeightType::kInt8) return 3e-1;
  if (weights == WeightType::kFloat16 && type == DataType::kFloat) return 4e-2;
  switch (type) {
    case DataType::kDouble:
      return 1e-11;
    case DataType::kFloat16:
      return 4e-2;
    case DataType::kBFloat16:
      return 3e-1;
    default:
      return 1e-4;
  }
}

double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::abs(a - b) / std::max(1.0, std::abs(b));
  return std::isfinite(difference) ? difference : kNoNumber;
}

double LargestDifference(const OutputTensor& first, const OutputTensor& second) {
  if (first.type != second.type || first.bytes.size() != second.bytes.size()) return kNoNumber;
  // A part at a time: replies may be large.
  constexpr size_t kPart = 512;
  double a[kPart], b[kPart], largest = 0;
  const size_t size = ByteSize(first.type), count = first.bytes.size() / size;
  for (size_t done = 0; done < count; done += kPart) {
    const size_t part = std::min(kPart, count - done);
    for (const auto& [source, target] : {std::pair(&first, a), std::pair(&second, b)}) {
      ConvertElements(first.type, reinterpret_cast<const std::byte*>(source->bytes.data()) + done * size,
                      DataType::kDouble, reinterpret_cast<std::byte*>(target), part);
    }
    for (size_t k = 0; k < part; ++k) largest = std::max(largest, Difference(a[k], b[k]));
  }
  return largest;
}

}  // namespace

double LargestDifference(const InferReply& first, const InferReply& second) {
  if (first.outputs.size() != second.outputs.size()) return kNoNumber;
  double largest = 0;
  for (size_t k = 0; k < first.outputs.size(); ++k) {
    largest = std::max(largest, LargestDifference(first.outputs[k], second.outputs[k]));
  }
  return largest;
}

Verifier::Verifier(double share, Metrics* metrics) : share_(std::clamp(share, 0.0, 1.0)) {
  if (metrics == nullptr) {
    agreed_ = differed_ = failed_ = std::make_shared<Counter>();
    return;
  }
  CounterFamily& verified = metrics->Counters(
      "rnnserve_verified_total", "Calls that ran on a second engine as well (--verify_share).", {"outcome"});
  agreed_ = verified.With({"agreed"});
  differed_ = verified.With({"differed"});
  failed_ = verified.With({"failed"});
  metrics->GaugeFunction("rnnserve_verify_largest_difference",
                         "Largest difference between two engines so far, relative above 1 and absolute below.",
                         [this] { return largest(); });
}

bool Verifier::Sample() {
  if (share_ == 0) return false;
  const auto call = static_cast<double>(calls_.fetch_add(1, std::memory_order_relaxed));
  return std::floor((call + 1) * share_) > std::floor(call * share_);
}

void Verifier::Compare(std::string_view model, const InferReply& first, const absl::StatusOr<InferReply>& second,
                       WeightType weights) {
  const auto subject = [&] { return absl::StrCat("verify: model ", std::string(model), " on ", first.engine); };
  if (!second.ok()) {
    failed_->Add();
    LogWarning(absl::StrCat(subject(), ": the second run failed: ", second.status().message()));
    return;
  }
  const double difference = LargestDifference(first, *second);
  const double tolerance = first.outputs.empty() ? 0 : Tolerance(first.outputs[0].type, weights);
  (difference <= tolerance ? agreed_ : differed_)->Add();
  {
    const MutexLock lock(mutex_);
    largest_ = std::max(largest_, difference);
    if (difference <= 2 * logged_) return;
    logged_ = difference;
  }
  const std::string text = absl::StrCat(subject(), " and ", second->engine, ": largest difference so far ", difference);
  if (difference <= tolerance) {
    LogInfo(text);
  } else {
    LogWarning(absl::StrCat(text, ", expected at most ", tolerance));
  }
}

double Verifier::largest() const {
  const MutexLock lock(mutex_);
  return largest_;
}

}  // namespace rnnserve
