// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "server/models/content_encoding.h"
#include "server/models/model.h"

namespace rnnserve {

std::string Fingerprint(const StackSpec& stack, std::span<const LayerView> layers) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  EncodeContent(stack, layers, [&](const void* data, size_t size) { EVP_DigestUpdate(context.get(), data, size); });
  std::array<char, 32> digest;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return absl::BytesToHexString(absl::string_view(digest.data(), digest.size()));
}

}  // namespace rnnserve
