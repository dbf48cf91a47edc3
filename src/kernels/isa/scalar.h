// Plain C++: the reference for every other instruction set. Included inside that target's anonymous
// namespace. Every instruction set provides the vectors of lanes.h and the dots of A3 on its own packing of
// activations and tiles.

#include "kernels/isa/lanes.h"

// ---- A3: no Extra.
struct Extra {};
using Blocks8 = EightBlocks<Extra>;
inline void pack_extra(Blocks8&) {}

inline int32_t dot_q8(const uint8_t* w, const int8_t* x) {
  int32_t sum = 0;
  for (int i = 0; i < 32; ++i) sum += static_cast<int8_t>(w[i]) * x[i];
  return sum;
}
inline int32_t dot_q4(const uint8_t* w, const int8_t* x) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += ((w[i] & 15) - 8) * x[i] + ((w[i] >> 4) - 8) * x[i + 16];
  return sum;
}

/// The isums of the first n of eight blocks, lane = block; the other lanes are 0. w points at the first
/// block.
template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  I r = {};
  for (int b = 0; b < n; ++b) r.v[b] = type == q4_0 ? dot_q4(w + b * 16, x.q[b]) : dot_q8(w + b * 32, x.q[b]);
  return r;
}

constexpr int kTileVectors = 1;      ///< a tile is this many times 16 rows
constexpr int kTileActivations = 4;  ///< activation rows that meet a tile at a time

/// A tile's block: [16 rows][32] int8 levels.
template <WeightType type>
constexpr size_t tile_block_bytes = kWide * 32;

template <WeightType type>
inline void pack_block(const uint8_t* const* rows, size_t block, uint8_t* out) {
  for (size_t r = 0; r < kWide; ++r) {
    int8_t* to = reinterpret_cast<int8_t*>(out + r * 32);
    for (int i = 0; i < 32; ++i) {
      if (type == q4_0) {
        const uint8_t byte = rows[r][block * 16 + (i & 15)];
        to[i] = static_cast<int8_t>((i < 16 ? byte & 15 : byte >> 4) - 8);
      } else {
        to[i] = static_cast<int8_t>(rows[r][block * 32 + i]);
      }
    }
  }
}

/// The isums of the tile's 16 rows with block c of x[t][g], for T activation rows.
template <WeightType type, int T>
inline void tile_isums(const uint8_t* tile, const Blocks8* const (&x)[T], size_t g, int c, WI (&sums)[T][1]) {
  for (int t = 0; t < T; ++t)
    for (int r = 0; r < kWide; ++r) {
      const int32_t sum = dot_q8(tile + r * 32, x[t][g].q[c]);
      (r < kLanes ? sums[t][0].low : sums[t][0].high).v[r % kLanes] = sum;
    }
}
