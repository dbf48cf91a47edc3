// What the integer dots of all NEON instruction sets have in common. Both sides are signed: nibbles are
// levels -8 to 7 from the start, so an activation row needs nothing beside its int8 quants.

struct Extra {};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8&) {}

inline int8x16_t load_q(const int8_t* p) { return vld1q_s8(p); }

/// The levels of a block's first (half = 0) or last 16 columns.
template <WeightType type>
inline int8x16_t load_levels(const uint8_t* block, int half) {
  const uint8x16_t bytes = vld1q_u8(block + (type == q4_0 ? 0 : half * 16));
  if constexpr (type == q8_0) return vreinterpretq_s8_u8(bytes);
  const uint8x16_t nibbles = half == 0 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4);
  return vsubq_s8(vreinterpretq_s8_u8(nibbles), vdupq_n_s8(8));
}
/// The sums of eight vectors of 4, lane i = sum of v[i]'s lanes.
inline I add_blocks(const int32x4_t (&v)[8]) {
  return as_i(add_neighbours(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3])),
              add_neighbours(add_neighbours(v[4], v[5]), add_neighbours(v[6], v[7])));
}

inline void transpose4(int32x4_t (&v)[4]) {
  const int32x4x2_t ab = vtrnq_s32(v[0], v[1]), cd = vtrnq_s32(v[2], v[3]);
  v[0] = vcombine_s32(vget_low_s32(ab.val[0]), vget_low_s32(cd.val[0]));
  v[1] = vcombine_s32(vget_low_s32(ab.val[1]), vget_low_s32(cd.val[1]));
  v[2] = vcombine_s32(vget_high_s32(ab.val[0]), vget_high_s32(cd.val[0]));
  v[3] = vcombine_s32(vget_high_s32(ab.val[1]), vget_high_s32(cd.val[1]));
}

/// A tile's block as 8 groups of 4 columns, each [16 rows][4] int8; arrange() may change the order within
/// four rows of a group.
template <WeightType type, class Arrange>
inline void pack_columns(const uint8_t* const* rows, size_t block, uint8_t* out, Arrange arrange) {
  for (int r = 0; r < 16; r += 4)
    for (int half = 0; half < 2; ++half) {
      int32x4_t v[4];
      for (int i = 0; i < 4; ++i)
        v[i] = vreinterpretq_s32_s8(load_levels<type>(rows[r + i] + block * block_bytes<type>, half));
      transpose4(v);  // v[g]: four columns of the four rows
      for (int g = 0; g < 4; ++g)
        vst1q_s8(reinterpret_cast<int8_t*>(out + (half * 4 + g) * 64 + r * 4), arrange(v[g]));
    }
}

/// Every tile holds int8.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32;
constexpr int kTileVectors = 1;
