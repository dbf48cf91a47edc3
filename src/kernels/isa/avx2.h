// AVX2 with F16C (never FMA). Included inside that target's anonymous namespace.
// Provides the 8-lane float F, the 8-lane int32 I, and the dots of A3 on its own packing of activations and tiles.

using F = __m256;  // GCC and clang give it + - * /
using Mask = __m256;
struct I {
  __m256i v;
};

inline F set1(float x) { return _mm256_set1_ps(x); }
inline Mask lt(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline Mask gt(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
inline Mask is_nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
inline Mask lanes_between(int base, int first, int last) {
  const __m256i j = _mm256_add_epi32(_mm256_set1_epi32(base), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i from = _mm256_cmpgt_epi32(j, _mm256_set1_epi32(first - 1));
  return _mm256_castsi256_ps(_mm256_and_si256(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(last), j)));
}
inline F select(Mask m, F a, F b) { return _mm256_blendv_ps(b, a, m); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }  // a < b ? a : b
inline F max(F a, F b) { return _mm256_max_ps(a, b); }  // a > b ? a : b
inline F negate(F a) { return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a); }
inline F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline F copysign(F a, F s) {
  const F sign = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, s));
}
inline F scale_by_bits(F y, F t) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F a) { _mm256_storeu_ps(p, a); }
inline F to_float(I a) { return _mm256_cvtepi32_ps(a.v); }
inline I to_int(F a) { return {_mm256_cvttps_epi32(a)}; }
inline void store(int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline F load_i8(const int8_t* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))); }
inline void store_bytes(uint8_t* p, I a) {
  const __m256i first = _mm256_set1_epi32(0x0c080400);
  const __m256i bytes = _mm256_shuffle_epi8(a.v, first);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
}

/// 8 rows of 8 dwords, transposed in place.
inline void transpose8(__m256i (&v)[8]) {
  __m256i t[8], u[8];
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
  }
}
inline void transpose(F (&v)[8]) {
  __m256i t[8];
  for (int i = 0; i < 8; ++i) t[i] = _mm256_castps_si256(v[i]);
  transpose8(t);
  for (int i = 0; i < 8; ++i) v[i] = _mm256_castsi256_ps(t[i]);
}
inline F load_f16(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline void store_f16(uint16_t* p, F a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
inline float fold8(F a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));  // a0+a4, a1+a5, a2+a6, a3+a7
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline __m256i load_i(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m256i broadcast4(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return _mm256_set1_epi32(x);
}

// ---- A3. Beside the int8 quants, an activation row holds them once more as two blocks' halves side by side (for
// Q4_0 rows as they lie in the file: [b lo | b+1 lo], [b hi | b+1 hi]), and once as int16 (for Q8_0 tiles).
constexpr size_t kExtraBytes = 3;
inline void pack_extra(const int8_t* q, size_t n, uint8_t* out) {  // n: a multiple of 64
  for (size_t i = 0; i < n; i += 64) {
    const __m256i a = load_i(q + i);
    const __m256i b = load_i(q + i + 32);
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute2x128_si256(a, b, 0x20));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + i + 32), _mm256_permute2x128_si256(a, b, 0x31));
  }
  for (size_t i = 0; i < n; i += 16)
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + n + 2 * i),
                       _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(q + i))));
}
inline const uint8_t* paired(const Activation& x) { return x.extra; }
inline const int16_t* wide(const Activation& x) { return reinterpret_cast<const int16_t*>(x.extra + x.padded); }

/// Eight partial int32 sums of a Q8_0 block. |w| is the unsigned side: 2*128*127 fits int16, -128 included.
inline __m256i dot_q8(const uint8_t* w, const int8_t* x) {
  const __m256i wv = load_i(w);
  const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(wv), _mm256_sign_epi8(load_i(x), wv));
  return _mm256_madd_epi16(products, _mm256_set1_epi16(1));
}

/// The sums of the first n of eight vectors, lane i = sum of v[i]'s lanes; the other lanes 0.
template <int n>
inline I transpose_add(const __m256i (&v)[8]) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i v01 = _mm256_hadd_epi32(v[0], n > 1 ? v[1] : zero);
  const __m256i v23 = n > 2 ? _mm256_hadd_epi32(v[2], n > 3 ? v[3] : zero) : zero;
  const __m256i low = _mm256_hadd_epi32(v01, v23);
  if constexpr (n <= 4) return {_mm256_zextsi128_si256(_mm_add_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)))};
  const __m256i v45 = _mm256_hadd_epi32(v[4], n > 5 ? v[5] : zero);
  const __m256i v67 = n > 6 ? _mm256_hadd_epi32(v[6], n > 7 ? v[7] : zero) : zero;
  const __m256i high = _mm256_hadd_epi32(v45, v67);
  return {_mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31))};
}

/// Sixteen int16 partial sums (eight a block) of two neighbouring Q4_0 blocks with unsigned nibbles.
inline __m256i dot_q4_pair(__m256i nibbles, const uint8_t* x) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(nibbles, mask), load_i(x));
  const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(nibbles, 4), mask), load_i(x + 32));
  return _mm256_add_epi16(low, high);
}

/// From eight blocks' int16 partials (two blocks a vector) to their sums in order, 8 * sum(x) subtracted.
inline I finish_q4(__m256i v01, __m256i v23, __m256i v45, __m256i v67, const int32_t* sum8) {
  const __m256i v = _mm256_hadd_epi16(_mm256_hadd_epi16(v01, v23), _mm256_hadd_epi16(v45, v67));  // at most 4 * 7620
  const __m256i even_odd = _mm256_madd_epi16(v, _mm256_set1_epi16(1));                            // blocks 0 2 4 6 | 1 3 5 7
  const __m256i sums = _mm256_permutevar8x32_epi32(even_odd, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  return {_mm256_sub_epi32(sums, load_i(sum8))};
}

template <bool q4, int n>
inline I isums(const uint8_t* w, const Activation& x, size_t block) {
  if constexpr (q4) {
    __m256i v[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int pair = 0; pair < n / 2; ++pair) v[pair] = dot_q4_pair(load_i(w + pair * 32), paired(x) + (block + 2 * pair) * 32);
    if constexpr (n % 2 == 1) {  // half a pair: the row ends here
      const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + n / 2 * 32));
      v[n / 2] = dot_q4_pair(_mm256_zextsi128_si256(half), paired(x) + (block + n - 1) * 32);
    }
    return finish_q4(v[0], v[1], v[2], v[3], x.sum8 + block);
  } else {
    __m256i v[8];
    for (int b = 0; b < n; ++b) v[b] = dot_q8(w + b * 32, x.q + (block + b) * 32);
    return transpose_add<n>(v);
  }
}

// A tile's block. Q4_0: 8 groups of 4 columns, each [16 rows][4] unsigned nibbles. Q8_0: 16 pairs of columns, each [16 rows][2] int16.
template <bool q4>
constexpr size_t tile_block_bytes = kTileRows * 32 * (q4 ? 1 : 2);

template <bool q4>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  for (int half = 0; half < 2; ++half) {
    __m256i v[8];
    for (int r = 0; r < 8; ++r) {
      const uint8_t* row = rows[half * 8 + r];
      if constexpr (q4) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + block * 16));
        v[r] = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
      } else {
        v[r] = load_i(row + block * 32);
      }
    }
    transpose8(v);  // v[g]: columns 4g .. 4g+3 of the 8 rows
    for (int g = 0; g < 8; ++g) {
      if constexpr (q4) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(out + (g * 2 + half) * 32), v[g]);
      } else {
        const __m256i first = _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 0, -1, 1, -1, 4, -1, 5, -1, 8,
                                               -1, 9, -1, 12, -1, 13);
        const __m256i second = _mm256_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1, 2, -1, 3, -1, 6, -1, 7, -1,
                                                10, -1, 11, -1, 14, -1, 15);
        _mm256_store_si256(reinterpret_cast<__m256i*>(out + (g * 4 + half) * 32), _mm256_srai_epi16(_mm256_shuffle_epi8(v[g], first), 8));
        _mm256_store_si256(reinterpret_cast<__m256i*>(out + (g * 4 + 2 + half) * 32),
                           _mm256_srai_epi16(_mm256_shuffle_epi8(v[g], second), 8));
      }
    }
  }
}

template <bool q4, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Activation* x, size_t block, I (&sums)[T][2]) {
  __m256i acc[T][2];
  unroll<T>([&](auto t) { acc[t][0] = acc[t][1] = _mm256_setzero_si256(); });
  const auto row = [](const uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); };
  if constexpr (q4) {
#pragma GCC unroll 2
    for (int g = 0; g < 8; ++g) {
      const __m256i w0 = row(tile + g * 64), w1 = row(tile + g * 64 + 32);
      unroll<T>([&](auto t) {
        const __m256i xv = broadcast4(x[t].q + block * 32 + g * 4);
        acc[t][0] = _mm256_add_epi16(acc[t][0], _mm256_maddubs_epi16(w0, xv));
        acc[t][1] = _mm256_add_epi16(acc[t][1], _mm256_maddubs_epi16(w1, xv));  // at most 8*2*15*127 = 30480
      });
    }
    unroll<T>([&](auto t) {
      const __m256i sum8 = _mm256_set1_epi32(x[t].sum8[block]);
      sums[t][0].v = _mm256_sub_epi32(_mm256_madd_epi16(acc[t][0], _mm256_set1_epi16(1)), sum8);
      sums[t][1].v = _mm256_sub_epi32(_mm256_madd_epi16(acc[t][1], _mm256_set1_epi16(1)), sum8);
    });
  } else {
#pragma GCC unroll 2
    for (int p = 0; p < 16; ++p) {
      const __m256i w0 = row(tile + p * 64), w1 = row(tile + p * 64 + 32);
      unroll<T>([&](auto t) {
        const __m256i xv = broadcast4(wide(x[t]) + block * 32 + p * 2);
        acc[t][0] = _mm256_add_epi32(acc[t][0], _mm256_madd_epi16(w0, xv));
        acc[t][1] = _mm256_add_epi32(acc[t][1], _mm256_madd_epi16(w1, xv));
      });
    }
    unroll<T>([&](auto t) {
      sums[t][0].v = acc[t][0];
      sums[t][1].v = acc[t][1];
    });
  }
}
