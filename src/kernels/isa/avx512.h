// AVX-512 F, BW, VL and DQ (never FMA). Included inside that target's anonymous namespace.

// clang-format off
#include "kernels/isa/m256.h"
#include "kernels/isa/m512.h"
// clang-format on

// ---- A3. As on AVX2, in 512 bits: beside the int8 quants, an activation row holds them by fours of blocks
// for Q4_0 rows and as int16 for Q8_0 tiles.
struct Extra {
  int8_t fours[2][2][64];
  int16_t wide[8][32];
};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8& x) {
  pack_fours(x.q, x.extra.fours);
  pack_int16(x.q, x.extra.wide);
  halve_minus8(x.minus8);
}

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi16(1);
  if constexpr (type == q4_0) {
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i v[2] = {zero, zero};
    unroll<(n + 3) / 4>([&](auto i) {
      const __m512i both = load_first<(n - 4 * i) * 16>(w + i * 64);
      const __m512i low = _mm512_maddubs_epi16(_mm512_and_si512(both, mask), load_z(x.extra.fours[i][0]));
      const __m512i high = _mm512_maddubs_epi16(_mm512_and_si512(_mm512_srli_epi16(both, 4), mask),
                                                load_z(x.extra.fours[i][1]));
      v[i] = _mm512_madd_epi16(_mm512_add_epi16(low, high), ones);
    });
    return {
        _mm256_add_epi32(add_fours(v[0], v[1]), _mm256_madd_epi16(load_i(x.minus8), _mm256_set1_epi16(1)))};
  } else {
    __m512i v[4] = {zero, zero, zero, zero};
    unroll<(n + 1) / 2>([&](auto i) {
      const __m512i wv = load_first<(n - 2 * i) * 32>(w + i * 64);
      const __m512i xv = load_z(x.q[2 * i]);
      const __m512i signed_x = _mm512_mask_sub_epi8(xv, _mm512_movepi8_mask(wv), zero, xv);
      v[i] = _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_abs_epi8(wv), signed_x),
                               ones);  // 2*128*127 fits int16, -128 included
    });
    return {add_pairs(v)};
  }
}

constexpr int kTileVectors = 2;
constexpr int kTileActivations = 6;

/// Q4_0: columns in groups of 4, nibbles. Q8_0: columns in pairs, int16.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32 * (type == q4_0 ? 1 : 2);

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  if constexpr (type == q4_0)
    pack_columns_z<q4_0>(rows, block, out, 0);
  else
    pack_column_pairs_z(rows, block, out);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][2]) {
  __m512i acc[T][2];
  unroll<T>([&](auto t) {
    acc[t][0] = acc[t][1] = type == q4_0 ? _mm512_set1_epi32(x[t][g].minus8[c]) : _mm512_setzero_si512();
  });
  unroll<type == q4_0 ? 8 : 16>([&](auto i) {
    const __m512i w[2] = {load_z(tile + i * 64), load_z(tile + tile_block_bytes<type> + i * 64)};
    unroll<T>([&](auto t) {
      const __m512i xv =
          type == q4_0 ? broadcast4_z(x[t][g].q[c] + i * 4) : broadcast4_z(x[t][g].extra.wide[c] + i * 2);
      unroll<2>([&](auto r) {
        if constexpr (type == q4_0)
          acc[t][r] = _mm512_add_epi16(acc[t][r], _mm512_maddubs_epi16(w[r], xv));
        else
          acc[t][r] = _mm512_add_epi32(acc[t][r], _mm512_madd_epi16(w[r], xv));
        pin_to_register(acc[t][r]);
      });
    });
  });
  unroll<T>([&](auto t) {
    unroll<2>([&](auto r) {
      sums[t][r].v = type == q4_0 ? _mm512_madd_epi16(acc[t][r], _mm512_set1_epi16(1)) : acc[t][r];
    });
  });
}
