// WebAssembly's SIMD of 128 bits. Included inside that target's anonymous namespace.

typedef float F4 __attribute__((vector_size(16)));  // with + - * /
typedef uint32_t U4 __attribute__((vector_size(16)));
using M4 = v128_t;
struct I4 {
  v128_t v;
};

inline F4 set4(float x) { return F4{x, x, x, x}; }
inline M4 lt(F4 a, F4 b) { return wasm_f32x4_lt((v128_t)a, (v128_t)b); }
inline M4 is_nan(F4 a) { return wasm_f32x4_ne((v128_t)a, (v128_t)a); }
inline M4 lanes_between4(int base, int first, int last) {
  const v128_t j = wasm_i32x4_add(wasm_i32x4_splat(base), wasm_i32x4_const(0, 1, 2, 3));
  return wasm_v128_and(wasm_i32x4_ge(j, wasm_i32x4_splat(first)), wasm_i32x4_lt(j, wasm_i32x4_splat(last)));
}
inline F4 select(M4 m, F4 a, F4 b) { return (F4)wasm_v128_bitselect((v128_t)a, (v128_t)b, m); }
inline F4 min(F4 a, F4 b) { return (F4)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }  // a < b ? a : b
inline F4 max(F4 a, F4 b) { return (F4)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }  // b < a ? a : b
inline F4 negate(F4 a) { return (F4)wasm_f32x4_neg((v128_t)a); }
inline F4 abs(F4 a) { return (F4)wasm_f32x4_abs((v128_t)a); }
inline F4 copysign(F4 a, F4 s) { return select(wasm_u32x4_splat(0x80000000u), s, a); }
inline F4 scale_by_bits(F4 y, F4 t) { return (F4)((U4)y + ((U4)t << 23)); }
inline bool all_within(F4 a, float limit) {
  return wasm_i32x4_all_true(wasm_f32x4_le((v128_t)abs(a), (v128_t)set4(limit)));
}
inline F4 load4(const float* p) { return (F4)wasm_v128_load(p); }
inline void store(float* p, F4 a) { wasm_v128_store(p, (v128_t)a); }
inline F4 to_float(I4 a) { return (F4)wasm_f32x4_convert_i32x4(a.v); }
inline I4 to_int(F4 a) { return {wasm_i32x4_trunc_sat_f32x4((v128_t)a)}; }
inline void store(int32_t* p, I4 a) { wasm_v128_store(p, a.v); }
inline F4 load4_i8(const int8_t* p) {
  return (F4)wasm_f32x4_convert_i32x4(
      wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p))));
}
inline void store_bytes(uint8_t* p, I4 a) {
  wasm_v128_store32_lane(p, wasm_i8x16_shuffle(a.v, a.v, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12),
                         0);
}
constexpr bool kConvertsHalves = false;  // a dozen instructions
/// As f16_to_float() does it.
inline F4 load4_f16(const uint16_t* p) {
  const U4 h = (U4)wasm_u32x4_load16x4(p);
  const U4 magnitude = h & 0x7fffu;
  const U4 special = (U4)(magnitude > 0x7bffu) & 0x7f800000u;
  const F4 normal = (F4)(((magnitude << 13) + 0x38000000u) | special);
  const F4 tiny = to_float({(v128_t)magnitude}) * 0x1p-24f;
  return (F4)((U4)select((v128_t)(magnitude < 0x0400u), tiny, normal) | ((h & 0x8000u) << 16));
}
/// As float_to_f16() does it.
inline void store_f16(uint16_t* p, F4 a) {
  const U4 bits = (U4)a, magnitude = bits & 0x7fffffffu;
  const auto where = [](auto condition, U4 yes, U4 no) {
    return (U4)wasm_v128_bitselect((v128_t)yes, (v128_t)no, (v128_t)condition);
  };
  const U4 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const U4 tiny = (U4)((F4)magnitude + 0.5f) - 0x3f000000u;  // rounds at 2^-24
  U4 half = where(magnitude < 0x38800000u, tiny, normal);
  half = where(magnitude >= 0x477ff000u, half - half + 0x7c00u, half);
  half = where(magnitude > 0x7f800000u, half - half + 0x7e00u, half);
  half |= (bits >> 16) & 0x8000u;
  wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4((v128_t)half, (v128_t)half), 0);
}
inline void transpose4(F4& a, F4& b, F4& c, F4& d) {
  const F4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const F4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}
inline float fold4(F4 a) { return (a[0] + a[2]) + (a[1] + a[3]); }

// clang-format off
#include "kernels/isa/two_fours.h"
#include "kernels/isa/wide_pair.h"
// clang-format on

// ---- A3. As on SSE2, everything is int16 and dot_i16x8: beside the int8 quants, an activation row holds
// them as int16.
struct Extra {
  int16_t wide[8][32];
};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8& x) {
  for (int b = 0; b < 8; ++b)
    for (int i = 0; i < 32; ++i) x.extra.wide[b][i] = x.q[b][i];
}

inline v128_t dot8(v128_t w, const int16_t* x) { return wasm_i32x4_dot_i16x8(w, wasm_v128_load(x)); }
inline v128_t add(v128_t a, v128_t b) { return wasm_i32x4_add(a, b); }

/// The sums of four vectors, lane i = sum of v[i]'s lanes.
inline v128_t add_rows(const v128_t* v) {
  F4 a = (F4)v[0], b = (F4)v[1], c = (F4)v[2], d = (F4)v[3];
  transpose4(a, b, c, d);
  return add(add((v128_t)a, (v128_t)b), add((v128_t)c, (v128_t)d));
}

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  v128_t v[8] = {};
  unroll<n>([&](auto b) {
    const int16_t* xb = x.extra.wide[b];
    if constexpr (type == q4_0) {
      const v128_t bytes = wasm_v128_load(w + b * 16);
      const v128_t low = wasm_v128_and(bytes, wasm_u8x16_splat(15)), high = wasm_u8x16_shr(bytes, 4);
      v[b] = add(
          add(dot8(wasm_u16x8_extend_low_u8x16(low), xb), dot8(wasm_u16x8_extend_high_u8x16(low), xb + 8)),
          add(dot8(wasm_u16x8_extend_low_u8x16(high), xb + 16),
              dot8(wasm_u16x8_extend_high_u8x16(high), xb + 24)));
    } else {
      const uint8_t* wb = w + b * 32;
      v[b] = add(add(dot8(wasm_i16x8_load8x8(wb), xb), dot8(wasm_i16x8_load8x8(wb + 8), xb + 8)),
                 add(dot8(wasm_i16x8_load8x8(wb + 16), xb + 16), dot8(wasm_i16x8_load8x8(wb + 24), xb + 24)));
    }
  });
  I sums = {{add_rows(v)}, {add_rows(v + 4)}};
  if constexpr (type == q4_0) {
    sums.low.v = add(sums.low.v, wasm_v128_load(x.minus8));
    sums.high.v = add(sums.high.v, wasm_v128_load(x.minus8 + 4));
  }
  return sums;
}

constexpr int kTileVectors = 1;
constexpr int kTileActivations = 2;

/// Columns in pairs, each [16 rows][2] int16 levels.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32 * 2;

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  int16_t levels[kWide][32];
  for (int r = 0; r < kWide; ++r)
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = type == q4_0 ? rows[r][block * 16 + (i & 15)] : rows[r][block * 32 + i];
      levels[r][i] = static_cast<int16_t>(type == q4_0 ? (i < 16 ? byte & 15 : byte >> 4) - 8
                                                       : static_cast<int8_t>(byte));
    }
  for (int i = 0; i < 16; ++i)
    for (int r = 0; r < kWide; ++r) __builtin_memcpy(out + i * 64 + r * 4, levels[r] + 2 * i, 4);
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  v128_t acc[T][4] = {};
  unroll<16>([&](auto i) {
    unroll<T>([&](auto t) {
      const v128_t xv = wasm_v128_load32_splat(x[t][g].extra.wide[c] + i * 2);
      unroll<4>([&](auto r) {
        acc[t][r] = add(acc[t][r], wasm_i32x4_dot_i16x8(wasm_v128_load(tile + i * 64 + r * 16), xv));
      });
    });
  });
  unroll<T>([&](auto t) { sums[t][0] = {{{acc[t][0]}, {acc[t][1]}}, {{acc[t][2]}, {acc[t][3]}}}; });
}
