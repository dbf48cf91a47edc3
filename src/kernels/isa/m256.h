// The 8-lane float F, int32 I and Mask on AVX2 and F16C (never FMA), shared by the instruction sets that have
// these; and what their dots have in common.

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
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}
inline bool all_within(F a, float limit) {
  return _mm256_movemask_ps(_mm256_cmp_ps(abs(a), set1(limit), _CMP_LE_OQ)) == 255;
}
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F a) { _mm256_storeu_ps(p, a); }
inline F to_float(I a) { return _mm256_cvtepi32_ps(a.v); }
inline I to_int(F a) { return {_mm256_cvttps_epi32(a)}; }
inline void store(int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline F load_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline void store_bytes(uint8_t* p, I a) {
  const __m256i first = _mm256_set1_epi32(0x0c080400);
  const __m256i bytes = _mm256_shuffle_epi8(a.v, first);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p),
                   _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
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
constexpr bool kConvertsHalves = true;  // one instruction
inline F load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void store_f16(uint16_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
inline float fold8(F a) {
  __m128 s =
      _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));  // a0+a4, a1+a5, a2+a6, a3+a7
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline __m256i load_i(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m256i broadcast4(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return _mm256_set1_epi32(x);
}
inline void store_i(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }  // aligned

/// The sums of eight vectors, lane i = sum of v[i]'s lanes.
inline I transpose_add(const __m256i (&v)[8]) {
  const __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i high = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  return {_mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                           _mm256_permute2x128_si256(low, high, 0x31))};
}

/// 16 bytes from `offset` on of eight rows: v[g] holds bytes 4g .. 4g+3 of each. Rows j and j + 4 share a
/// vector, so that dwords need not cross its halves.
inline void load_dwords(const uint8_t* const* rows, size_t offset, __m256i* v) {
  const auto load = [&](int row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + offset));
  };
  __m256i u[4], t[4];
  unroll<4>([&](auto j) { u[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(load(j)), load(j + 4), 1); });
  unroll<2>([&](auto j) {
    t[2 * j] = _mm256_unpacklo_epi32(u[2 * j], u[2 * j + 1]);
    t[2 * j + 1] = _mm256_unpackhi_epi32(u[2 * j], u[2 * j + 1]);
  });
  unroll<2>([&](auto j) {
    v[2 * j] = _mm256_unpacklo_epi64(t[j], t[j + 2]);
    v[2 * j + 1] = _mm256_unpackhi_epi64(t[j], t[j + 2]);
  });
}

/// Eight rows' blocks as eight groups of four columns: v[g] holds columns 4g .. 4g+3 of each row.
template <WeightType type>
inline void load_columns(const uint8_t* const* rows, size_t block, __m256i (&v)[8]) {
  load_dwords(rows, block * block_bytes<type>, v);
  if constexpr (type == q4_0) {
    const __m256i mask = _mm256_set1_epi8(15);
    unroll<4>([&](auto g) {
      v[g + 4] = _mm256_and_si256(_mm256_srli_epi16(v[g], 4), mask);
      v[g] = _mm256_and_si256(v[g], mask);
    });
  } else {
    load_dwords(rows, block * 32 + 16, v + 4);
  }
}

/// A tile's block as 8 groups of 4 columns, each [16 rows][4] bytes: nibbles, or int8 with the bits of `flip`
/// inverted.
template <WeightType type>
inline void pack_columns(const uint8_t* const* rows, size_t block, uint8_t* out, uint8_t flip) {
  for (int half = 0; half < 2; ++half) {
    __m256i v[8];
    load_columns<type>(rows + half * 8, block, v);
    for (int g = 0; g < 8; ++g)
      store_i(out + (g * 2 + half) * 32, _mm256_xor_si256(v[g], _mm256_set1_epi8(static_cast<char>(flip))));
  }
}

/// The same of a Q8_0 block as 16 pairs of columns, each [16 rows][2] int16.
inline void pack_column_pairs(const uint8_t* const* rows, size_t block, uint8_t* out) {
  const __m256i first = _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1, 0, -1,
                                         1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
  const __m256i second =
      _mm256_add_epi8(first, _mm256_set1_epi16(0x0200));  // two bytes further; the -1 of a word stays
  for (int half = 0; half < 2; ++half) {
    __m256i v[8];
    load_columns<q8_0>(rows + half * 8, block, v);
    for (int g = 0; g < 8; ++g) {
      store_i(out + (g * 4 + half) * 32, _mm256_srai_epi16(_mm256_shuffle_epi8(v[g], first), 8));
      store_i(out + (g * 4 + 2 + half) * 32, _mm256_srai_epi16(_mm256_shuffle_epi8(v[g], second), 8));
    }
  }
}

/// Two neighbouring blocks' first halves side by side, then their second halves: as the nibbles of two Q4_0
/// blocks lie in the file.
inline void pack_paired(const int8_t (&q)[8][32], int8_t (&paired)[8][32]) {
  for (int b = 0; b < 8; b += 2) {
    const __m256i first = load_i(q[b]), second = load_i(q[b + 1]);
    store_i(paired[b], _mm256_permute2x128_si256(first, second, 0x20));
    store_i(paired[b + 1], _mm256_permute2x128_si256(first, second, 0x31));
  }
}
/// minus8 as two int16 of -4 times the sum each, from which sums of eight maddubs may start: a sum of nibbles
/// (w - 4) * x of 16 columns and 4 * x of 16 more is at most 16*11*127 + 16*4*127 = 30480.
inline void halve_minus8(int32_t (&minus8)[8]) {
  const __m256i half = _mm256_srai_epi32(load_i(minus8), 1);
  store_i(minus8, _mm256_blend_epi16(half, _mm256_slli_epi32(half, 16), 0xaa));
}
inline void pack_int16(const int8_t (&q)[8][32], int16_t (&wide)[8][32]) {
  for (int i = 0; i < 256; i += 16)
    store_i(&wide[0][0] + i,
            _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(&q[0][0] + i))));
}

/// Two neighbouring Q4_0 blocks of a row. n = 1: the row ends after the first, and the second is not read.
template <int n>
inline __m256i load_pair(const uint8_t* w) {
  if constexpr (n >= 2)
    return load_i(w);
  else
    return _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w)));
}
