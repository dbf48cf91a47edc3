// The 16-lane W and WI in one AVX-512 register, and what the dots of 512 bits have in common. Beside m256.h.

using W = __m512;  // GCC and clang give it + and *
struct WI {
  __m512i v;
};

constexpr int kProductVectors = 4;  // of a product in attention: three queries have 12 sums

inline W set16(float x) { return _mm512_set1_ps(x); }
inline __mmask16 lt(W a, W b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline __mmask16 gt(W a, W b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
inline __mmask16 is_nan(W a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
inline __mmask16 lanes_between16(int base, int first, int last) {
  const auto below = [base](int j) {
    return j <= base ? 0u : j >= base + kWide ? 0xffffu : (1u << (j - base)) - 1;
  };
  return static_cast<__mmask16>(below(last) & ~below(first));
}
inline W select(__mmask16 m, W a, W b) { return _mm512_mask_blend_ps(m, b, a); }
inline W max(W a, W b) { return _mm512_max_ps(a, b); }  // a > b ? a : b
inline W negate(W a) { return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a); }
inline W abs(W a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
inline W copysign(W a, W s) { return _mm512_or_ps(abs(a), _mm512_and_ps(_mm512_set1_ps(-0.0f), s)); }
inline W scale_by_bits(W y, W t) {
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(y), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}
inline bool all_within(W a, float limit) {
  return _mm512_cmp_ps_mask(abs(a), set16(limit), _CMP_LE_OQ) == 0xffff;
}
inline F low(W a) { return _mm512_castps512_ps256(a); }
inline F high(W a) { return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a), 1)); }
inline W load16(const float* p) { return _mm512_loadu_ps(p); }
inline W load16_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store(float* p, W a) { _mm512_storeu_ps(p, a); }
inline W to_float(WI a) { return _mm512_cvtepi32_ps(a.v); }

inline __m512i load_z(const void* p) { return _mm512_loadu_si512(p); }
inline __m512i broadcast4_z(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return _mm512_set1_epi32(x);
}
/// The first `bytes` bytes, the rest 0; reads no further.
template <int bytes>
inline __m512i load_first(const uint8_t* p) {
  if constexpr (bytes >= 64)
    return load_z(p);
  else
    return _mm512_maskz_loadu_epi8((uint64_t{1} << bytes) - 1, p);
}

/// 16 bytes from `offset` on of 16 rows: v[g] holds bytes 4g .. 4g+3 of each. Rows j, j + 4, j + 8 and j + 12
/// share a vector, so that dwords need not cross its quarters.
inline void load_dwords_z(const uint8_t* const* rows, size_t offset, __m512i* v) {
  const auto load = [&](int row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + offset));
  };
  __m512i u[4], t[4];
  unroll<4>([&](auto j) {
    u[j] = _mm512_castsi128_si512(load(j));
    u[j] = _mm512_mask_broadcast_i32x4(u[j], 0x00f0, load(j + 4));
    u[j] = _mm512_mask_broadcast_i32x4(u[j], 0x0f00, load(j + 8));
    u[j] = _mm512_mask_broadcast_i32x4(u[j], 0xf000, load(j + 12));
  });
  unroll<2>([&](auto j) {
    t[2 * j] = _mm512_unpacklo_epi32(u[2 * j], u[2 * j + 1]);
    t[2 * j + 1] = _mm512_unpackhi_epi32(u[2 * j], u[2 * j + 1]);
  });
  unroll<2>([&](auto j) {
    v[2 * j] = _mm512_unpacklo_epi64(t[j], t[j + 2]);
    v[2 * j + 1] = _mm512_unpackhi_epi64(t[j], t[j + 2]);
  });
}

/// 16 rows' blocks as eight groups of four columns: v[g] holds columns 4g .. 4g+3 of each row.
template <WeightType type>
inline void load_columns_z(const uint8_t* const* rows, size_t block, __m512i (&v)[8]) {
  load_dwords_z(rows, block * block_bytes<type>, v);
  if constexpr (type == q4_0) {
    const __m512i mask = _mm512_set1_epi8(15);
    unroll<4>([&](auto g) {
      v[g + 4] = _mm512_and_si512(_mm512_srli_epi16(v[g], 4), mask);
      v[g] = _mm512_and_si512(v[g], mask);
    });
  } else {
    load_dwords_z(rows, block * 32 + 16, v + 4);
  }
}

/// pack_columns() in 512 bits.
template <WeightType type>
inline void pack_columns_z(const uint8_t* const* rows, size_t block, uint8_t* out, uint8_t flip) {
  __m512i v[8];
  load_columns_z<type>(rows, block, v);
  unroll<8>([&](auto g) {
    _mm512_store_si512(out + g * 64, _mm512_xor_si512(v[g], _mm512_set1_epi8(static_cast<char>(flip))));
  });
}

/// pack_column_pairs() in 512 bits.
inline void pack_column_pairs_z(const uint8_t* const* rows, size_t block, uint8_t* out) {
  const __m512i first =
      _mm512_broadcast_i32x4(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
  const __m512i second =
      _mm512_add_epi8(first, _mm512_set1_epi16(0x0200));  // two bytes further; the -1 of a word stays
  __m512i v[8];
  load_columns_z<q8_0>(rows, block, v);
  unroll<8>([&](auto g) {
    _mm512_store_si512(out + g * 128, _mm512_srai_epi16(_mm512_shuffle_epi8(v[g], first), 8));
    _mm512_store_si512(out + g * 128 + 64, _mm512_srai_epi16(_mm512_shuffle_epi8(v[g], second), 8));
  });
}

/// Four neighbouring blocks' first halves side by side, then their second halves: as the nibbles of four Q4_0
/// blocks lie in the file.
inline void pack_fours(const int8_t (&q)[8][32], int8_t (&fours)[2][2][64]) {
  for (int b = 0; b < 8; ++b) {
    __builtin_memcpy(fours[b / 4][0] + b % 4 * 16, q[b], 16);
    __builtin_memcpy(fours[b / 4][1] + b % 4 * 16, q[b] + 16, 16);
  }
}

/// v[i] holds four sums for each of the blocks 4i .. 4i+3; the blocks' sums in order.
inline __m256i add_fours(__m512i v0, __m512i v1) {
  const __m512i t = _mm512_add_epi32(_mm512_unpacklo_epi32(v0, v1),
                                     _mm512_unpackhi_epi32(v0, v1));  // of each 128 bits: v0 v1 v0 v1
  const __m512i sums = _mm512_add_epi32(t, _mm512_shuffle_epi32(t, _MM_PERM_BADC));
  return _mm512_castsi512_si256(
      _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0), sums));
}

/// v[i] holds eight sums for each of the blocks 2i and 2i+1; the blocks' sums in order.
inline __m256i add_pairs(const __m512i (&v)[4]) {
  const __m512i t01 = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i t23 = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  const __m512i u =
      _mm512_add_epi32(_mm512_unpacklo_epi64(t01, t23),
                       _mm512_unpackhi_epi64(t01, t23));  // blocks 0 2 4 6 | 0 2 4 6 | 1 3 5 7 | 1 3 5 7
  const __m512i even =
      _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15), u);
  return _mm256_add_epi32(_mm512_castsi512_si256(even), _mm512_extracti64x4_epi64(even, 1));
}
