// Base NEON, of AArch64 and of 32-bit ARM. Included inside that target's anonymous namespace.

// clang-format off
#ifdef __aarch64__
#include "kernels/isa/neon128.h"
#else
#include "kernels/isa/neon32.h"
#endif
#include "kernels/isa/neon_levels.h"
// clang-format on

// ---- A3. Products are int16; two of them fit one (2*128*127 = 32512), and all 32 of a Q4_0 block do
// (32*8*127 = 32512).
inline int16x8_t mul_low(int8x16_t a, int8x16_t b) { return vmull_s8(vget_low_s8(a), vget_low_s8(b)); }
inline int16x8_t add_low(int16x8_t sum, int8x16_t a, int8x16_t b) {
  return vmlal_s8(sum, vget_low_s8(a), vget_low_s8(b));
}

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  if constexpr (type == q4_0) {
    int16x8_t v[8] = {};
    unroll<n>([&](auto b) {
      const int8x16_t w0 = load_levels<q4_0>(w + b * 16, 0), w1 = load_levels<q4_0>(w + b * 16, 1);
      const int8x16_t x0 = load_q(x.q[b]), x1 = load_q(x.q[b] + 16);
      v[b] = add_high(add_low(add_high(mul_low(w0, x0), w0, x0), w1, x1), w1, x1);
    });
    const int16x8_t low = add_neighbours(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3]));
    const int16x8_t high = add_neighbours(add_neighbours(v[4], v[5]), add_neighbours(v[6], v[7]));
    const int16x8_t sums = add_neighbours(low, high);
    return as_i(vmovl_s16(vget_low_s16(sums)), vmovl_s16(vget_high_s16(sums)));
  } else {
    int32x4_t v[8] = {};
    unroll<n>([&](auto b) {
      const int8x16_t w0 = load_levels<q8_0>(w + b * 32, 0), w1 = load_levels<q8_0>(w + b * 32, 1);
      const int8x16_t x0 = load_q(x.q[b]), x1 = load_q(x.q[b] + 16);
      v[b] = vpadalq_s16(vpaddlq_s16(add_high(mul_low(w0, x0), w0, x0)), add_high(mul_low(w1, x1), w1, x1));
    });
    return add_blocks(v);
  }
}

#ifdef __aarch64__
constexpr int kTileActivations = 4;
#else
constexpr int kTileActivations = 2;  // half as many registers
#endif

/// Of a group's four rows first columns 0 and 1, then 2 and 3.
template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  pack_columns<type>(rows, block, out, [](int32x4_t v) {
    return vreinterpretq_s8_s16(vcombine_s16(vmovn_s32(v), vshrn_n_s32(v, 16)));
  });
}

/// Quants 2i and 2i + 1 of sixteen, eight times.
template <int i>
inline int8x16_t broadcast2(int8x16_t x) {
  const int16x8_t pairs = vreinterpretq_s16_s8(x);
  if constexpr (i < 4)
    return vreinterpretq_s8_s16(vdupq_lane_s16(vget_low_s16(pairs), i));
  else
    return vreinterpretq_s8_s16(vdupq_lane_s16(vget_high_s16(pairs), i - 4));
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  int16x8_t narrow[T][4] = {};  // Q4_0
  int32x4_t acc[T][4] = {};     // Q8_0
  unroll<2>([&](auto half) {
    int8x16_t xv[T];
    unroll<T>([&](auto t) { xv[t] = load_q(x[t][g].q[c] + half * 16); });
    unroll<4>([&](auto i) {
      int8x16_t w[4];
      unroll<4>([&](auto r) {
        w[r] = load_q(reinterpret_cast<const int8_t*>(tile + (half * 4 + i) * 64 + r * 16));
      });
      unroll<T>([&](auto t) {
        const int8x16_t x0 = broadcast2<2 * i>(xv[t]), x1 = broadcast2<2 * i + 1>(xv[t]);
        unroll<4>([&](auto r) {
          if constexpr (type == q4_0)
            narrow[t][r] = add_high(add_low(narrow[t][r], w[r], x0), w[r], x1);
          else
            acc[t][r] = vpadalq_s16(acc[t][r], add_high(mul_low(w[r], x0), w[r], x1));
        });
      });
    });
  });
  unroll<T>([&](auto t) {
    if constexpr (type == q4_0) unroll<4>([&](auto r) { acc[t][r] = vpaddlq_s16(narrow[t][r]); });
    sums[t][0] = {as_i(acc[t][0], acc[t][1]), as_i(acc[t][2], acc[t][3])};
  });
}
