// AVX-512 F, BW, VL, DQ and VNNI (never FMA for floats). Included inside that target's anonymous namespace.

// clang-format off
#include "kernels/isa/m256.h"
#include "kernels/isa/m512.h"
// clang-format on

// ---- A3. dpbusd wants one side unsigned: nibbles are, int8 weights are with their top bit inverted (w +
// 128). The sum of the block's quants, times 8 or 128, comes off again.
struct Extra {
  int8_t fours[2][2][64];  // for Q4_0 rows
  int32_t minus128[8];     // -128 times the sum of the block's quants
  int32_t unused[8];
};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8& x) {
  pack_fours(x.q, x.extra.fours);
  store_i(x.extra.minus128, _mm256_slli_epi32(load_i(x.minus8), 4));
}

inline __m512i dot4(__m512i sum, __m512i w, __m512i x) { return _mm512_dpbusd_epi32(sum, w, x); }

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  const __m512i zero = _mm512_setzero_si512();
  if constexpr (type == q4_0) {
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i v[2] = {zero, zero};
    unroll<(n + 3) / 4>([&](auto i) {
      const __m512i both = load_first<(n - 4 * i) * 16>(w + i * 64);
      const __m512i low = dot4(zero, _mm512_and_si512(both, mask), load_z(x.extra.fours[i][0]));
      v[i] = dot4(low, _mm512_and_si512(_mm512_srli_epi16(both, 4), mask), load_z(x.extra.fours[i][1]));
    });
    return {_mm256_add_epi32(add_fours(v[0], v[1]), load_i(x.minus8))};
  } else {
    const __m512i top = _mm512_set1_epi8(-128);
    __m512i v[4] = {zero, zero, zero, zero};
    unroll<(n + 1) / 2>([&](auto i) {
      v[i] = dot4(zero, _mm512_xor_si512(load_first<(n - 2 * i) * 32>(w + i * 64), top), load_z(x.q[2 * i]));
    });
    return {_mm256_add_epi32(add_pairs(v), load_i(x.extra.minus128))};
  }
}

constexpr int kTileVectors = 2;
constexpr int kTileActivations = 6;

/// Columns in groups of 4, unsigned bytes.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32;

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  pack_columns_z<type>(rows, block, out, type == q4_0 ? 0 : 0x80);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][2]) {
  unroll<T>([&](auto t) {
    sums[t][0].v = sums[t][1].v =
        _mm512_set1_epi32(type == q4_0 ? x[t][g].minus8[c] : x[t][g].extra.minus128[c]);
  });
  unroll<8>([&](auto i) {
    const __m512i w0 = load_z(tile + i * 64), w1 = load_z(tile + tile_block_bytes<type> + i * 64);
    unroll<T>([&](auto t) {
      const __m512i xv = broadcast4_z(x[t][g].q[c] + i * 4);
      sums[t][0].v = dot4(sums[t][0].v, w0, xv);
      sums[t][1].v = dot4(sums[t][1].v, w1, xv);
    });
  });
}
