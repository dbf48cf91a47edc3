// The 4-lane F4, I4 and M4 on SSE2, shared by the instruction sets of 128 bits on x86; and what their dots
// have in common.

using F4 = __m128;  // GCC and clang give it + - * /
using M4 = __m128;
struct I4 {
  __m128i v;
};

inline F4 set4(float x) { return _mm_set1_ps(x); }
inline M4 lt(F4 a, F4 b) { return _mm_cmplt_ps(a, b); }
inline M4 is_nan(F4 a) { return _mm_cmpunord_ps(a, a); }
inline M4 lanes_between4(int base, int first, int last) {
  const __m128i j = _mm_add_epi32(_mm_set1_epi32(base), _mm_setr_epi32(0, 1, 2, 3));
  return _mm_castsi128_ps(
      _mm_and_si128(_mm_cmpgt_epi32(j, _mm_set1_epi32(first - 1)), _mm_cmpgt_epi32(_mm_set1_epi32(last), j)));
}
inline F4 select(M4 m, F4 a, F4 b) { return _mm_or_ps(_mm_and_ps(m, a), _mm_andnot_ps(m, b)); }
inline F4 min(F4 a, F4 b) { return _mm_min_ps(a, b); }  // a < b ? a : b
inline F4 max(F4 a, F4 b) { return _mm_max_ps(a, b); }  // a > b ? a : b
inline F4 negate(F4 a) { return _mm_xor_ps(_mm_set1_ps(-0.0f), a); }
inline F4 abs(F4 a) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), a); }
inline F4 copysign(F4 a, F4 s) { return select(_mm_set1_ps(-0.0f), s, a); }
inline F4 scale_by_bits(F4 y, F4 t) {
  return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(y), _mm_slli_epi32(_mm_castps_si128(t), 23)));
}
inline bool all_within(F4 a, float limit) { return _mm_movemask_ps(_mm_cmple_ps(abs(a), set4(limit))) == 15; }
inline F4 load4(const float* p) { return _mm_loadu_ps(p); }
inline void store(float* p, F4 a) { _mm_storeu_ps(p, a); }
inline F4 to_float(I4 a) { return _mm_cvtepi32_ps(a.v); }
inline I4 to_int(F4 a) { return {_mm_cvttps_epi32(a)}; }
inline void store(int32_t* p, I4 a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.v); }
inline __m128i load_4_bytes(const void* p) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  return _mm_cvtsi32_si128(bytes);
}
inline F4 load4_i8(const int8_t* p) {
  const __m128i twice = _mm_unpacklo_epi8(load_4_bytes(p), load_4_bytes(p));
  return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(twice, twice), 24));
}
inline void store_bytes(uint8_t* p, I4 a) {
  const __m128i words = _mm_packs_epi32(_mm_and_si128(a.v, _mm_set1_epi32(255)), _mm_setzero_si128());
  const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  __builtin_memcpy(p, &bytes, 4);
}
constexpr bool kConvertsHalves = false;  // a dozen instructions
/// As f16_to_float() does it.
inline F4 load4_f16(const uint16_t* p) {
  const __m128i h =
      _mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128());
  const __m128i magnitude = _mm_and_si128(h, _mm_set1_epi32(0x7fff));
  const __m128i shifted = _mm_slli_epi32(magnitude, 13);
  const __m128i special =
      _mm_and_si128(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff)), _mm_set1_epi32(0x7f800000));
  const F4 normal =
      _mm_castsi128_ps(_mm_or_si128(_mm_add_epi32(shifted, _mm_set1_epi32(0x38000000)), special));
  const F4 tiny = _mm_cvtepi32_ps(magnitude) * _mm_set1_ps(0x1p-24f);
  const F4 positive =
      select(_mm_castsi128_ps(_mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x0400))), tiny, normal);
  return _mm_or_ps(positive, _mm_castsi128_ps(_mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16)));
}
/// As float_to_f16() does it.
inline void store_f16(uint16_t* p, F4 a) {
  const __m128i bits = _mm_castps_si128(a);
  const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
  const auto where = [](__m128i mask, int value, __m128i other) {
    return _mm_or_si128(_mm_and_si128(mask, _mm_set1_epi32(value)), _mm_andnot_si128(mask, other));
  };
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
  const __m128i normal =
      _mm_srli_epi32(_mm_add_epi32(_mm_add_epi32(magnitude, _mm_set1_epi32(0xfff - 0x38000000)), odd), 13);
  const F4 sum = _mm_castsi128_ps(magnitude) + _mm_set1_ps(0.5f);  // rounds at 2^-24
  const __m128i tiny = _mm_sub_epi32(_mm_castps_si128(sum), _mm_set1_epi32(0x3f000000));
  const __m128i is_tiny = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x38800000));
  __m128i half = _mm_or_si128(_mm_and_si128(is_tiny, tiny), _mm_andnot_si128(is_tiny, normal));
  half = where(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fefff)), 0x7c00, half);
  half = where(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000)), 0x7e00, half);
  half = _mm_or_si128(half, _mm_slli_epi32(_mm_srai_epi32(bits, 31),
                                           15));  // the upper half repeats the sign, as packs wants it
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi32(half, half));
}
inline void transpose4(F4& a, F4& b, F4& c, F4& d) { _MM_TRANSPOSE4_PS(a, b, c, d); }
inline float fold4(F4 a) {  // (a0 + a2) + (a1 + a3)
  const F4 s = a + _mm_movehl_ps(a, a);
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

// clang-format off
#include "kernels/isa/two_fours.h"
#include "kernels/isa/wide_pair.h"
// clang-format on

inline __m128i load_i(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline void store_i(void* p, __m128i v) { _mm_store_si128(static_cast<__m128i*>(p), v); }  // aligned
inline __m128i broadcast4(const void* p) { return _mm_shuffle_epi32(load_4_bytes(p), 0); }

/// The int8 in the lower and in the upper half as int16.
inline __m128i low_int16(__m128i bytes) { return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8); }
inline __m128i high_int16(__m128i bytes) { return _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8); }

inline void pack_int16(const int8_t (&q)[8][32], int16_t (&wide)[8][32]) {
  for (int b = 0; b < 8; ++b)
    for (int i = 0; i < 32; i += 16) {
      const __m128i bytes = load_i(q[b] + i);
      store_i(wide[b] + i, low_int16(bytes));
      store_i(wide[b] + i + 8, high_int16(bytes));
    }
}

/// The sums of four vectors, lane i = sum of v[i]'s lanes.
inline __m128i add_rows(const __m128i* v) {
  const __m128i t01 = _mm_add_epi32(_mm_unpacklo_epi32(v[0], v[1]), _mm_unpackhi_epi32(v[0], v[1]));
  const __m128i t23 = _mm_add_epi32(_mm_unpacklo_epi32(v[2], v[3]), _mm_unpackhi_epi32(v[2], v[3]));
  return _mm_add_epi32(_mm_unpacklo_epi64(t01, t23), _mm_unpackhi_epi64(t01, t23));
}
inline I add_blocks(const __m128i (&v)[8]) { return {{add_rows(v)}, {add_rows(v + 4)}}; }

/// 16 nibbles of a Q4_0 block: its first half (low) or its second.
inline __m128i low_nibbles(__m128i bytes) { return _mm_and_si128(bytes, _mm_set1_epi8(15)); }
inline __m128i high_nibbles(__m128i bytes) {
  return _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
}

inline void transpose4(__m128i (&v)[4]) {
  F4 t[4];
  for (int i = 0; i < 4; ++i) t[i] = _mm_castsi128_ps(v[i]);
  transpose4(t[0], t[1], t[2], t[3]);
  for (int i = 0; i < 4; ++i) v[i] = _mm_castps_si128(t[i]);
}

/// A tile's block as 8 groups of 4 columns, each [16 rows][4] bytes: nibbles or int8.
template <WeightType type>
inline void pack_columns(const uint8_t* const* rows, size_t block, uint8_t* out) {
  for (int r = 0; r < 16; r += 4)
    for (int half = 0; half < 2; ++half) {
      __m128i v[4];
      for (int i = 0; i < 4; ++i) {
        if constexpr (type == q4_0) {
          const __m128i bytes = load_i(rows[r + i] + block * 16);
          v[i] = half == 0 ? low_nibbles(bytes) : high_nibbles(bytes);
        } else {
          v[i] = load_i(rows[r + i] + block * 32 + half * 16);
        }
      }
      transpose4(v);  // v[g]: four columns of the four rows
      for (int g = 0; g < 4; ++g) store_i(out + (half * 4 + g) * 64 + r * 4, v[g]);
    }
}

/// A tile's block as 16 pairs of columns, each [16 rows][2] int16.
template <WeightType type>
inline void pack_column_pairs(const uint8_t* const* rows, size_t block, uint8_t* out) {
  alignas(16) uint8_t bytes[16 * 32];
  pack_columns<type>(rows, block, bytes);
  for (int g = 0; g < 8; ++g)
    for (int r = 0; r < 4; ++r) {  // four rows' four columns
      const __m128i v = load_i(bytes + g * 64 + r * 16);
      const F4 low = _mm_castsi128_ps(low_int16(v));
      const F4 high = _mm_castsi128_ps(high_int16(v));
      _mm_store_ps(reinterpret_cast<float*>(out + (g * 2) * 64 + r * 16),
                   _mm_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0)));
      _mm_store_ps(reinterpret_cast<float*>(out + (g * 2 + 1) * 64 + r * 16),
                   _mm_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
    }
}

/// The isums of a tile of column pairs (int16) for T activation rows; x(t, i): activation row t's quants 2i
/// and 2i + 1 as int16.
template <int T, class X>
inline __attribute__((always_inline)) void pair_isums(const uint8_t* tile, X x, __m128i (&acc)[T][4]) {
  unroll<16>([&](auto i) {
    unroll<T>([&](auto t) {
      const __m128i xv = broadcast4(x(t, i));
      unroll<4>([&](auto r) {
        acc[t][r] = _mm_add_epi32(acc[t][r], _mm_madd_epi16(load_i(tile + i * 64 + r * 16), xv));
        pin_to_register(acc[t][r]);
      });
    });
  });
}
inline WI as_wide(const __m128i (&v)[4]) { return {{{v[0]}, {v[1]}}, {{v[2]}, {v[3]}}}; }
