// SPDX-License-Identifier: Apache-2.0
#include "engine/cell.h"

#include <openssl/evp.h>

#include <cassert>
#include <utility>

namespace rnnserve {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t bytes) { EVP_DigestUpdate(context_, data, bytes); }
  template <typename T>
  void AddValue(T value) {
    Add(&value, sizeof value);
  }
  std::string Digest() {
    std::string digest(32, '\0');
    EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return digest;
  }

 private:
  EVP_MD_CTX* context_;
};

// Sizes fix the extent of every weight, so the plain concatenation below is unambiguous.
template <typename T>
std::string Key(const CellSpec& spec, const CellWeights<T>& weights) {
  Sha256 hash;
  hash.AddValue(static_cast<int32_t>(spec.kind));
  hash.AddValue(static_cast<int32_t>(spec.data_type));
  hash.AddValue(spec.input_size);
  hash.AddValue(spec.hidden_size);
  for (const Activation& activation : spec.activations) {
    hash.AddValue(static_cast<int32_t>(activation.kind));
    hash.AddValue(activation.alpha);
    hash.AddValue(activation.beta);
  }
  hash.AddValue(spec.clip);
  hash.AddValue(static_cast<int32_t>(spec.clip_cell_input));
  hash.AddValue(static_cast<int32_t>(spec.input_forget));
  hash.AddValue(static_cast<int32_t>(spec.linear_before_reset));
  hash.AddValue(static_cast<int32_t>(spec.has_peephole));
  for (const std::vector<T>* part : {&weights.w, &weights.r, &weights.wb, &weights.rb, &weights.p}) {
    hash.Add(part->data(), part->size() * sizeof(T));
  }
  return hash.Digest();
}

template <typename T>
void AssertSizes([[maybe_unused]] const CellSpec& spec, [[maybe_unused]] const CellWeights<T>& weights) {
  [[maybe_unused]] const auto gates = static_cast<size_t>(GateCount(spec.kind) * spec.hidden_size);
  assert(spec.hidden_size > 0 && spec.input_size >= 0);
  assert(weights.w.size() == gates * static_cast<size_t>(spec.input_size));
  assert(weights.r.size() == gates * static_cast<size_t>(spec.hidden_size));
  assert(weights.wb.size() == gates && weights.rb.size() == gates);
  assert(weights.p.size() == (spec.has_peephole ? 3 * static_cast<size_t>(spec.hidden_size) : 0));
}

template <typename T>
int64_t Bytes(const CellWeights<T>& weights) {
  return static_cast<int64_t>(
      (weights.w.size() + weights.r.size() + weights.wb.size() + weights.rb.size() + weights.p.size()) * sizeof(T));
}

}  // namespace

Cell::Cell(CellSpec spec, CellWeights<float> weights) : spec_(spec), f32_(std::move(weights)) {
  assert(ComputeType(spec_.data_type) == DataType::kFloat);
  AssertSizes(spec_, f32_);
  key_ = Key(spec_, f32_);
}

Cell::Cell(CellSpec spec, CellWeights<double> weights) : spec_(spec), f64_(std::move(weights)) {
  assert(spec_.data_type == DataType::kDouble);
  AssertSizes(spec_, f64_);
  key_ = Key(spec_, f64_);
}

int64_t Cell::weight_bytes() const { return Bytes(f32_) + Bytes(f64_); }

}  // namespace rnnserve
