// SPDX-License-Identifier: Apache-2.0
#include "server/models/content_tag.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "server/models/content_encoding.h"

namespace rnnserve {

struct ContentTag::Algorithm {
  ~Algorithm() { EVP_MAC_free(mac); }
  EVP_MAC* mac = nullptr;
};

ContentTag::ContentTag() {
  auto algorithm = std::make_unique<Algorithm>();
  algorithm->mac = EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
  if (algorithm->mac == nullptr || RAND_priv_bytes(key_.data(), static_cast<int>(key_.size())) != 1) return;
  algorithm_ = std::move(algorithm);
}

ContentTag::~ContentTag() = default;

std::optional<std::string> ContentTag::Of(const StackSpec& stack, std::span<const LayerView> layers) const {
  if (algorithm_ == nullptr) return std::nullopt;
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(EVP_MAC_CTX_new(algorithm_->mac),
                                                                          &EVP_MAC_CTX_free);
  bool good = context != nullptr && EVP_MAC_init(context.get(), key_.data(), key_.size(), nullptr) == 1;
  if (!good) return std::nullopt;
  EncodeContent(stack, layers, [&](const void* data, size_t size) {
    good = good && EVP_MAC_update(context.get(), static_cast<const unsigned char*>(data), size) == 1;
  });
  std::array<unsigned char, 16> tag;
  size_t size = 0;
  good = good && EVP_MAC_final(context.get(), tag.data(), &size, tag.size()) == 1 && size == tag.size();
  if (!good) return std::nullopt;
  return std::string(tag.begin(), tag.end());
}

}  // namespace rnnserve
