// AVX2 with F16C (never FMA). Included inside that target's anonymous namespace.

#include "kernels/isa/m256.h"
#include "kernels/isa/wide_pair.h"

// ---- A3. Beside the int8 quants, an activation row holds them paired for Q4_0 rows and as int16 for Q8_0
// tiles.
struct Extra {
  int8_t paired[8][32];
  int16_t wide[8][32];
};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8& x) {
  pack_paired(x.q, x.extra.paired);
  pack_int16(x.q, x.extra.wide);
  halve_minus8(x.minus8);
}

/// Eight partial int32 sums of a Q8_0 block. |w| is the unsigned side: 2*128*127 fits int16, -128 included.
inline __m256i dot_q8(const uint8_t* w, const int8_t* x) {
  const __m256i wv = load_i(w);
  const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(wv), _mm256_sign_epi8(load_i(x), wv));
  return _mm256_madd_epi16(products, _mm256_set1_epi16(1));
}

/// Sixteen int16 partial sums (eight a block) of two neighbouring Q4_0 blocks with unsigned nibbles; x: 64
/// paired quants.
inline __m256i dot_q4_pair(__m256i w, const int8_t* x) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(w, mask), load_i(x));
  const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 4), mask), load_i(x + 32));
  return _mm256_add_epi16(low, high);
}

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  if constexpr (type == q4_0) {
    __m256i v[4] = {};
    unroll<(n + 1) / 2>([&](auto pair) {
      v[pair] = dot_q4_pair(load_pair<n - 2 * pair>(w + pair * 32), x.extra.paired[2 * pair]);
    });
    const __m256i sums =
        _mm256_hadd_epi16(_mm256_hadd_epi16(v[0], v[1]), _mm256_hadd_epi16(v[2], v[3]));  // at most 4 * 7620
    const __m256i in_order = _mm256_permutevar8x32_epi32(
        sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));  // from 0 2 4 6 | 1 3 5 7
    return {_mm256_madd_epi16(_mm256_add_epi16(in_order, load_i(x.minus8)), _mm256_set1_epi16(1))};
  } else {
    __m256i v[8] = {};
    unroll<n>([&](auto b) { v[b] = dot_q8(w + b * 32, x.q[b]); });
    return transpose_add(v);
  }
}

constexpr int kTileVectors = 1;
constexpr int kTileActivations = 4;

/// Q4_0: columns in groups of 4, nibbles. Q8_0: columns in pairs, int16.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32 * (type == q4_0 ? 1 : 2);

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  if constexpr (type == q4_0)
    pack_columns<q4_0>(rows, block, out, 0);
  else
    pack_column_pairs(rows, block, out);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  __m256i low[T], high[T];
  unroll<T>([&](auto t) {
    low[t] = high[t] = type == q4_0 ? _mm256_set1_epi32(x[t][g].minus8[c]) : _mm256_setzero_si256();
  });
  if constexpr (type == q4_0) {
    unroll<8>([&](auto i) {
      const __m256i w0 = load_i(tile + i * 64), w1 = load_i(tile + i * 64 + 32);
      unroll<T>([&](auto t) {
        const __m256i xv = broadcast4(x[t][g].q[c] + i * 4);
        low[t] = _mm256_add_epi16(low[t], _mm256_maddubs_epi16(w0, xv));
        high[t] = _mm256_add_epi16(high[t], _mm256_maddubs_epi16(w1, xv));
        if (i % 2 == 1) {  // every i was slower
          pin_to_register(low[t]);
          pin_to_register(high[t]);
        }
      });
    });
    unroll<T>([&](auto t) {
      sums[t][0].low.v = _mm256_madd_epi16(low[t], _mm256_set1_epi16(1));
      sums[t][0].high.v = _mm256_madd_epi16(high[t], _mm256_set1_epi16(1));
    });
  } else {
    unroll<16>([&](auto i) {
      const __m256i w0 = load_i(tile + i * 64), w1 = load_i(tile + i * 64 + 32);
      unroll<T>([&](auto t) {
        const __m256i xv = broadcast4(x[t][g].extra.wide[c] + i * 2);
        low[t] = _mm256_add_epi32(low[t], _mm256_madd_epi16(w0, xv));
        high[t] = _mm256_add_epi32(high[t], _mm256_madd_epi16(w1, xv));
        pin_to_register(low[t]);
        pin_to_register(high[t]);
      });
    });
    unroll<T>([&](auto t) {
      sums[t][0].low.v = low[t];
      sums[t][0].high.v = high[t];
    });
  }
}
