// SPDX-License-Identifier: Apache-2.0
// Products with narrow weights by instructions that add two products of bfloat16 (AVX-512 BF16) or four of bytes
// (AVX-512 VNNI) at once. Highway has no names for them, so here they have a dispatch of their own.
//
// Rows become narrow as well, once for all products of a step: bfloat16, as tiles take it (tile_product.h); or whole
// numbers of 16 bits with a scale for every 128 terms, kept as two bytes each. Weights of int8 are stored plus 128,
// without a sign, for that instruction multiplies bytes without a sign by bytes with one.
#pragma once

#include <cstddef>

#include "engine/cpu/product.h"

namespace rnnserve::cpu {

// Whether this CPU, within MaxInstructionSet(), multiplies weights of this kind so.
bool HasDotProduct(WeightType type);

// As Prepare, for weights of int8, and Multiply of product.h, where HasDotProduct.
void NarrowForDotProduct(size_t depth, size_t count, Rows<const float> rows, std::byte* target);
void MultiplyByDotProduct(const Product<float>& product);

}  // namespace rnnserve::cpu
