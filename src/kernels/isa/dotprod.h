// NEON with the dot product instructions (FEAT_DotProd). Included inside that target's anonymous namespace.

// clang-format off
#include "kernels/isa/neon128.h"
#include "kernels/isa/neon_levels.h"
#include "kernels/isa/sdot.h"
// clang-format on

constexpr int kTileActivations = 4;

/// Columns in groups of 4.
template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  pack_columns<type>(rows, block, out, [](int32x4_t v) { return vreinterpretq_s8_s32(v); });
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  int32x4_t acc[T][4] = {};
  unroll<2>([&](auto half) {
    int8x16_t xv[T];
    unroll<T>([&](auto t) { xv[t] = load_q(x[t][g].q[c] + half * 16); });
    unroll<4>([&](auto i) {
      unroll<4>([&](auto r) {
        const int8x16_t w = load_q(reinterpret_cast<const int8_t*>(tile + (half * 4 + i) * 64 + r * 16));
        unroll<T>([&](auto t) { acc[t][r] = vdotq_laneq_s32(acc[t][r], w, xv[t], i); });
      });
    });
  });
  unroll<T>([&](auto t) { sums[t][0] = {as_i(acc[t][0], acc[t][1]), as_i(acc[t][2], acc[t][3])}; });
}
