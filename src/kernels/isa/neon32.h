// 32-bit ARM: NEON there flushes denormals, so floats are plain (VFP) and only the integer dots use it.

#include "kernels/isa/lanes.h"

inline I as_i(int32x4_t low, int32x4_t high) {
  I r;
  vst1q_s32(r.v, low);
  vst1q_s32(r.v + 4, high);
  return r;
}

inline int16x8_t add_neighbours(int16x8_t a, int16x8_t b) {
  return vcombine_s16(vpadd_s16(vget_low_s16(a), vget_high_s16(a)),
                      vpadd_s16(vget_low_s16(b), vget_high_s16(b)));
}
inline int32x4_t add_neighbours(int32x4_t a, int32x4_t b) {
  return vcombine_s32(vpadd_s32(vget_low_s32(a), vget_high_s32(a)),
                      vpadd_s32(vget_low_s32(b), vget_high_s32(b)));
}
inline int16x8_t add_high(int16x8_t sum, int8x16_t a, int8x16_t b) {
  return vmlal_s8(sum, vget_high_s8(a), vget_high_s8(b));
}
