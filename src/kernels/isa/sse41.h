// SSE4.1 with SSSE3. Included inside that target's anonymous namespace.

#include "kernels/isa/m128.h"

// ---- A3. Nibbles go through pmaddubsw; beside the int8 quants, an activation row holds them as int16 for
// Q8_0 tiles.
struct Extra {
  int16_t wide[8][32];
};
using Blocks8 = EightBlocks<Extra>;
/// As in m256.h, which says why the sums fit.
inline void halve_minus8(int32_t (&minus8)[8]) {
  for (int b = 0; b < 8; b += 4) {
    const __m128i half = _mm_srai_epi32(load_i(minus8 + b), 1);
    store_i(minus8 + b, _mm_blend_epi16(half, _mm_slli_epi32(half, 16), 0xaa));
  }
}
inline void pack_extra(Blocks8& x) {
  pack_int16(x.q, x.extra.wide);
  halve_minus8(x.minus8);
}

/// Eight int16 partial sums of 16 weights with 16 quants. |w| is the unsigned side: 2*128*127 fits int16,
/// -128 included.
inline __m128i dot_signed(__m128i w, const int8_t* x) {
  return _mm_maddubs_epi16(_mm_abs_epi8(w), _mm_sign_epi8(load_i(x), w));
}

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  const __m128i ones = _mm_set1_epi16(1);
  __m128i v[8] = {};
  unroll<n>([&](auto b) {
    const int8_t* xb = x.q[b];
    if constexpr (type == q4_0) {
      const __m128i bytes = load_i(w + b * 16);
      v[b] = _mm_madd_epi16(_mm_add_epi16(_mm_maddubs_epi16(low_nibbles(bytes), load_i(xb)),
                                          _mm_maddubs_epi16(high_nibbles(bytes), load_i(xb + 16))),
                            ones);
    } else {
      v[b] = _mm_add_epi32(_mm_madd_epi16(dot_signed(load_i(w + b * 32), xb), ones),
                           _mm_madd_epi16(dot_signed(load_i(w + b * 32 + 16), xb + 16), ones));
    }
  });
  I sums = add_blocks(v);
  if constexpr (type == q4_0) {
    sums.low.v = _mm_add_epi32(sums.low.v, _mm_madd_epi16(load_i(x.minus8), ones));
    sums.high.v = _mm_add_epi32(sums.high.v, _mm_madd_epi16(load_i(x.minus8 + 4), ones));
  }
  return sums;
}

constexpr int kTileVectors = 1;
constexpr int kTileActivations = 2;

/// Q4_0: columns in groups of 4, nibbles. Q8_0: columns in pairs, int16.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32 * (type == q4_0 ? 1 : 2);

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  if constexpr (type == q4_0)
    pack_columns<q4_0>(rows, block, out);
  else
    pack_column_pairs<q8_0>(rows, block, out);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  __m128i acc[T][4];
  unroll<T>([&](auto t) {
    unroll<4>(
        [&](auto r) { acc[t][r] = type == q4_0 ? _mm_set1_epi32(x[t][g].minus8[c]) : _mm_setzero_si128(); });
  });
  if constexpr (type == q4_0) {
    unroll<8>([&](auto i) {
      unroll<T>([&](auto t) {
        const __m128i xv = broadcast4(x[t][g].q[c] + i * 4);
        unroll<4>([&](auto r) {
          acc[t][r] = _mm_add_epi16(acc[t][r], _mm_maddubs_epi16(load_i(tile + i * 64 + r * 16), xv));
          pin_to_register(acc[t][r]);
        });
      });
    });
    unroll<T>([&](auto t) {
      unroll<4>([&](auto r) { acc[t][r] = _mm_madd_epi16(acc[t][r], _mm_set1_epi16(1)); });
    });
  } else {
    pair_isums<T>(tile, [&](int t, int i) { return x[t][g].extra.wide[c] + i * 2; }, acc);
  }
  unroll<T>([&](auto t) { sums[t][0] = as_wide(acc[t]); });
}
