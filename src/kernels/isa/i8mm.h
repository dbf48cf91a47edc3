// NEON with the int8 matrix product (FEAT_I8MM) and the dot product. Included inside that target's anonymous
// namespace.

// clang-format off
#include "kernels/isa/neon128.h"
#include "kernels/isa/neon_levels.h"
#include "kernels/isa/sdot.h"
// clang-format on

constexpr int kTileActivations = 4;

/// Columns in groups of 8: [4 groups][8 pairs of rows][2][8].
template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  for (int r = 0; r < 16; r += 2)
    for (int half = 0; half < 2; ++half) {
      const int8x16_t first = load_levels<type>(rows[r] + block * block_bytes<type>, half);
      const int8x16_t second = load_levels<type>(rows[r + 1] + block * block_bytes<type>, half);
      int8_t* to = reinterpret_cast<int8_t*>(out + half * 256 + r * 8);
      vst1q_s8(to, vcombine_s8(vget_low_s8(first), vget_low_s8(second)));
      vst1q_s8(to + 128, vcombine_s8(vget_high_s8(first), vget_high_s8(second)));
    }
}

template <WeightType type, int T>
inline __attribute__((always_inline)) void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T],
                                                      size_t g, int c, WI (&sums)[T][1]) {
  constexpr int kPairs = (T + 1) / 2;  // of activation rows; an odd one is its own mate
  int32x4_t acc[kPairs][8] = {};       // two rows by two activation rows
  unroll<4>([&](auto i) {
    int8x16_t xv[kPairs];
    unroll<kPairs>([&](auto p) {
      constexpr int kMate = 2 * p + 1 < T ? 2 * p + 1 : 2 * p;
      xv[p] = vcombine_s8(vld1_s8(x[2 * p][g].q[c] + i * 8), vld1_s8(x[kMate][g].q[c] + i * 8));
    });
    unroll<8>([&](auto r) {
      const int8x16_t w = load_q(reinterpret_cast<const int8_t*>(tile + i * 128 + r * 16));
      unroll<kPairs>([&](auto p) { acc[p][r] = vmmlaq_s32(acc[p][r], w, xv[p]); });
    });
  });
  unroll<T>([&](auto t) {
    const auto rows = [&](int r) {  // four rows from 2r on
      const int32x4_t* pair = acc[t / 2] + r;
      return t % 2 == 0 ? vuzp1q_s32(pair[0], pair[1]) : vuzp2q_s32(pair[0], pair[1]);
    };
    sums[t][0] = {as_i(rows(0), rows(2)), as_i(rows(4), rows(6))};
  });
}
