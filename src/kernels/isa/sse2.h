// SSE2, which every x86-64 has. Included inside that target's anonymous namespace.

#include "kernels/isa/m128.h"

// ---- A3. Everything is int16 and pmaddwd: beside the int8 quants, an activation row holds them as int16.
struct Extra {
  int16_t wide[8][32];
};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8& x) { pack_int16(x.q, x.extra.wide); }

/// Four partial int32 sums of 16 weights (int16) with 16 quants.
inline __m128i dot16(__m128i w0, __m128i w1, const int16_t* x) {
  return _mm_add_epi32(_mm_madd_epi16(w0, load_i(x)), _mm_madd_epi16(w1, load_i(x + 8)));
}

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  __m128i v[8] = {};
  unroll<n>([&](auto b) {
    const int16_t* xb = x.extra.wide[b];
    if constexpr (type == q4_0) {
      const __m128i bytes = load_i(w + b * 16), zero = _mm_setzero_si128();
      const __m128i low = low_nibbles(bytes), high = high_nibbles(bytes);
      v[b] = _mm_add_epi32(dot16(_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero), xb),
                           dot16(_mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero), xb + 16));
    } else {
      const __m128i first = load_i(w + b * 32), second = load_i(w + b * 32 + 16);
      v[b] = _mm_add_epi32(dot16(low_int16(first), high_int16(first), xb),
                           dot16(low_int16(second), high_int16(second), xb + 16));
    }
  });
  I sums = add_blocks(v);
  if constexpr (type == q4_0) {
    sums.low.v = _mm_add_epi32(sums.low.v, load_i(x.minus8));
    sums.high.v = _mm_add_epi32(sums.high.v, load_i(x.minus8 + 4));
  }
  return sums;
}

constexpr int kTileVectors = 1;
constexpr int kTileActivations = 2;

/// Columns in pairs, int16.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32 * 2;

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  pack_column_pairs<type>(rows, block, out);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  __m128i acc[T][4];
  unroll<T>([&](auto t) {
    const __m128i start = _mm_set1_epi32(type == q4_0 ? x[t][g].minus8[c] : 0);
    unroll<4>([&](auto r) { acc[t][r] = start; });
  });
  pair_isums<T>(tile, [&](int t, int i) { return x[t][g].extra.wide[c] + i * 2; }, acc);
  unroll<T>([&](auto t) { sums[t][0] = as_wide(acc[t]); });
}
