// AVX-VNNI: AVX2 with dpbusd in 256 bits. Included inside that target's anonymous namespace.

#include "kernels/isa/m256.h"
#include "kernels/isa/wide_pair.h"

// ---- A3. dpbusd wants one side unsigned: nibbles are, int8 weights are with their top bit inverted (w +
// 128). The sum of the block's quants, times 8 or 128, comes off again.
struct Extra {
  int8_t paired[8][32];  // for Q4_0 rows
  int32_t minus128[8];   // -128 times the sum of the block's quants
  int32_t unused[8];
};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8& x) {
  pack_paired(x.q, x.extra.paired);
  store_i(x.extra.minus128, _mm256_slli_epi32(load_i(x.minus8), 4));
}

inline __m256i dot4(__m256i sum, __m256i w, __m256i x) { return _mm256_dpbusd_avx_epi32(sum, w, x); }

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  if constexpr (type == q4_0) {
    const __m256i mask = _mm256_set1_epi8(15);
    __m256i v[4] = {};
    unroll<(n + 1) / 2>([&](auto pair) {
      const __m256i both = load_pair<n - 2 * pair>(w + pair * 32);
      const __m256i low =
          dot4(_mm256_setzero_si256(), _mm256_and_si256(both, mask), load_i(x.extra.paired[2 * pair]));
      v[pair] =
          dot4(low, _mm256_and_si256(_mm256_srli_epi16(both, 4), mask), load_i(x.extra.paired[2 * pair + 1]));
    });
    const __m256i even_odd = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]),
                                               _mm256_hadd_epi32(v[2], v[3]));  // blocks 0 2 4 6 | 1 3 5 7
    const __m256i in_order = _mm256_permutevar8x32_epi32(even_odd, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return {_mm256_add_epi32(in_order, load_i(x.minus8))};
  } else {
    const __m256i top = _mm256_set1_epi8(-128);
    __m256i v[8] = {};
    unroll<n>([&](auto b) {
      v[b] = dot4(_mm256_setzero_si256(), _mm256_xor_si256(load_i(w + b * 32), top), load_i(x.q[b]));
    });
    return {_mm256_add_epi32(transpose_add(v).v, load_i(x.extra.minus128))};
  }
}

constexpr int kTileVectors = 1;
constexpr int kTileActivations = 4;

/// Columns in groups of 4, unsigned bytes.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32;

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  pack_columns<type>(rows, block, out, type == q4_0 ? 0 : 0x80);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  __m256i low[T], high[T];
  unroll<T>([&](auto t) {
    low[t] = high[t] = _mm256_set1_epi32(type == q4_0 ? x[t][g].minus8[c] : x[t][g].extra.minus128[c]);
  });
  unroll<8>([&](auto i) {
    const __m256i w0 = load_i(tile + i * 64), w1 = load_i(tile + i * 64 + 32);
    unroll<T>([&](auto t) {
      const __m256i xv = broadcast4(x[t][g].q[c] + i * 4);
      low[t] = dot4(low[t], w0, xv);
      high[t] = dot4(high[t], w1, xv);
    });
  });
  unroll<T>([&](auto t) {
    sums[t][0].low.v = low[t];
    sums[t][0].high.v = high[t];
  });
}
