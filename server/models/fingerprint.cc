// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "server/models/model.h"

namespace rnnserve {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie in memory");

// Everything of variable size is preceded by its size, so that no two inputs give the same bytes.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void Number(int64_t value) { EVP_DigestUpdate(context_.get(), &value, sizeof value); }
  void Bytes(const void* data, size_t size) {
    Number(static_cast<int64_t>(size));
    if (size > 0) EVP_DigestUpdate(context_.get(), data, size);
  }
  void Text(std::string_view text) { Bytes(text.data(), text.size()); }
  std::string Hex() {
    std::array<char, 32> digest;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return absl::BytesToHexString(absl::string_view(digest.data(), digest.size()));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string Fingerprint(const OpSpec& spec, std::span<const NamedTensor> weights) {
  Hash hash;
  hash.Text("rnnserve model 1");  // another encoding gets another number
  hash.Text(spec.CanonicalText());
  for (const std::string_view name : {"W", "R", "B", "P"}) {
    const auto found = std::ranges::find(weights, name, &NamedTensor::name);
    if (found == weights.end()) continue;
    const TensorView& tensor = found->tensor;
    hash.Text(name);
    hash.Number(static_cast<int64_t>(tensor.type));
    hash.Number(static_cast<int64_t>(tensor.shape.size()));
    for (const int64_t dim : tensor.shape) hash.Number(dim);
    hash.Bytes(tensor.data.data(), tensor.data.size());
  }
  return hash.Hex();
}

}  // namespace rnnserve
