// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/tile_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/cpu/dot_product.h"
#include "engine/cpu/narrow_rows.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

HWY_PUSH_ATTRIBUTES("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vnni,avx512bf16")
#include "engine/cpu/tile_product-inl.h"  // compiled for these

namespace rnnserve::cpu {
namespace {

struct ShapesOfThread {
  bool are_kept = false;  // until KeptTiles is gone
  bool are_set = false;
  TileShapes shapes;
};
constinit thread_local ShapesOfThread own_shapes;

// Not the intrinsics: GCC's write the number of a tile into the text, so that a template's cannot be one.
struct CpuTiles {
  static void Shape(const TileShapes& shapes) {
    ShapesOfThread& own = own_shapes;
    if (own.are_set && std::memcmp(&own.shapes, &shapes, sizeof shapes) == 0) return;
    asm volatile("ldtilecfg %0" ::"m"(shapes));
    own.are_set = own.are_kept;
    own.shapes = shapes;
  }
  static void Release() {
    if (!own_shapes.are_kept) asm volatile("tilerelease");
  }
  template <size_t kTile>
  static void Clear() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <size_t kTile>
  static void Load(const std::byte* at, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(stride), "i"(kTile) : "memory");
  }
  // Not into the nearest cache.
  template <size_t kTile>
  static void LoadOnce(const std::byte* at, size_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(stride), "i"(kTile) : "memory");
  }
  template <size_t kSum, size_t kRows, size_t kWeights>
  static void AddProduct() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRows), "i"(kWeights));
  }
  template <size_t kTile>
  static void Store(float* at, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(at), "r"(stride), "i"(kTile) : "memory");
  }
  static void AddLine(const float* start, const float* sums, float* target) {
    _mm512_store_ps(target, _mm512_add_ps(_mm512_load_ps(start), _mm512_load_ps(sums)));
  }
};

HWY_INLINE __m512 Widen(__m256bh brain) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(brain)), 16));
}

// The whole tiles of a row, zero behind its end. Returns the largest number's bits, without sign.
template <size_t kParts>
HWY_INLINE __m512i NarrowRow(const std::byte* row, size_t depth, std::byte* target) {
  const __m512i no_sign = _mm512_set1_epi32(0x7fffffff);
  __m512i largest = _mm512_setzero_si512();
  for (size_t k = 0; k < TilesOf(depth) * kTileTerms; k += kLine<float>) {
    const size_t left = depth > k ? depth - k : 0;
    __m512 number = _mm512_maskz_loadu_ps(Present(left), row + k * sizeof(float));
    largest = _mm512_max_epi32(largest, _mm512_and_si512(no_sign, _mm512_castps_si512(number)));
    std::byte* part = target + k / kTileTerms * kParts * kLineBytes + k % kTileTerms * sizeof(uint16_t);
    for (size_t p = 0; p < kParts; ++p, part += kLineBytes) {
      const __m256bh brain = _mm512_cvtneps_pbh(number);
      _mm256_store_si256(reinterpret_cast<__m256i*>(part), reinterpret_cast<__m256i>(brain));
      number = _mm512_sub_ps(number, Widen(brain));
    }
  }
  return largest;
}

template <size_t kParts>
void MultiplyIn(const TileProduct& product) {
  if (KeepsWeights(kParts, product)) return TileMultiplier<CpuTiles, kParts, true>(product).Run();
  TileMultiplier<CpuTiles, kParts>(product).Run();
}

}  // namespace

bool NarrowRowForTiles(size_t parts, size_t depth, const std::byte* row, std::byte* target) {
  if (parts == 1) return NarrowRow<1>(row, depth, target), true;
  const __m512i largest = NarrowRow<kBrainParts>(row, depth, target);
  return _mm512_reduce_max_epi32(largest) < std::bit_cast<int32_t>(kMostInParts);
}

void MultiplyByTiles(size_t parts, const TileProduct& product) {
  (parts == 1 ? MultiplyIn<1> : MultiplyIn<kBrainParts>)(product);
}

KeptTiles::KeptTiles() { own_shapes.are_kept = true; }
KeptTiles::~KeptTiles() {
  if (own_shapes.are_set) asm volatile("tilerelease");
  own_shapes.are_kept = own_shapes.are_set = false;
}

}  // namespace rnnserve::cpu
HWY_POP_ATTRIBUTES

namespace rnnserve::cpu {
namespace {

// Not __builtin_cpu_supports, to which clang 14 has no such names.
bool CpuHasTiles() {
  constexpr unsigned kBrain = 1U << 22, kTile = 1U << 24;  // AMX-BF16, AMX-TILE
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kBrain) != 0 && (edx & kTile) != 0;
}

// The kernel saves tiles' state, 8 KiB a thread, for processes that have asked for it.
bool MayUseTiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool HasTiles() {
  static const bool has_tiles = HasDotProduct(WeightType::kBFloat16) && CpuHasTiles() && MayUseTiles();
  return has_tiles;
}

}  // namespace rnnserve::cpu
#else
namespace rnnserve::cpu {

bool HasTiles() { return false; }
bool NarrowRowForTiles(size_t, size_t, const std::byte*, std::byte*) { return false; }
void MultiplyByTiles(size_t, const TileProduct&) {}
KeptTiles::KeptTiles() = default;
KeptTiles::~KeptTiles() = default;

}  // namespace rnnserve::cpu
#endif

namespace rnnserve::cpu {

bool NarrowForTiles(size_t parts, size_t depth, size_t count, const float* rows, size_t stride, std::byte* target) {
  for (size_t row = 0; row < count; ++row, target += TileRowBytes(parts, depth)) {
    if (!NarrowRowForTiles(parts, depth, reinterpret_cast<const std::byte*>(rows + row * stride), target)) return false;
  }
  return true;
}

}  // namespace rnnserve::cpu
