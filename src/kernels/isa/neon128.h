// The 4-lane F4, I4 and M4 on AArch64's base NEON, shared by its instruction sets.

using F4 = float32x4_t;  // GCC and clang give it + - * /
using M4 = uint32x4_t;
struct I4 {
  int32x4_t v;
};

inline F4 set4(float x) { return vdupq_n_f32(x); }
inline M4 lt(F4 a, F4 b) { return vcltq_f32(a, b); }
inline M4 is_nan(F4 a) { return vmvnq_u32(vceqq_f32(a, a)); }
inline M4 lanes_between4(int base, int first, int last) {
  static constexpr int32_t kOrder[4] = {0, 1, 2, 3};
  const int32x4_t j = vaddq_s32(vdupq_n_s32(base), vld1q_s32(kOrder));
  return vandq_u32(vcgeq_s32(j, vdupq_n_s32(first)), vcltq_s32(j, vdupq_n_s32(last)));
}
inline F4 select(M4 m, F4 a, F4 b) { return vbslq_f32(m, a, b); }
inline F4 min(F4 a, F4 b) { return select(lt(a, b), a, b); }  // vminq_f32 treats NaN and -0 in another way
inline F4 max(F4 a, F4 b) { return select(lt(b, a), a, b); }
inline F4 negate(F4 a) { return vnegq_f32(a); }
inline F4 abs(F4 a) { return vabsq_f32(a); }
inline F4 copysign(F4 a, F4 s) { return vbslq_f32(vdupq_n_u32(0x80000000u), s, a); }
inline F4 scale_by_bits(F4 y, F4 t) {
  return vreinterpretq_f32_s32(
      vaddq_s32(vreinterpretq_s32_f32(y), vshlq_n_s32(vreinterpretq_s32_f32(t), 23)));
}
inline bool all_within(F4 a, float limit) {
  return vminvq_u32(vcleq_f32(vabsq_f32(a), vdupq_n_f32(limit))) != 0;
}
inline F4 load4(const float* p) { return vld1q_f32(p); }
inline void store(float* p, F4 a) { vst1q_f32(p, a); }
inline F4 to_float(I4 a) { return vcvtq_f32_s32(a.v); }
inline I4 to_int(F4 a) { return {vcvtq_s32_f32(a)}; }
inline void store(int32_t* p, I4 a) { vst1q_s32(p, a.v); }
inline F4 load4_i8(const int8_t* p) {
  uint32_t bytes;
  __builtin_memcpy(&bytes, p, 4);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(bytes)))));
}
inline void store_bytes(uint8_t* p, I4 a) {
  const int16x4_t words = vmovn_s32(a.v);
  const uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(words, words))), 0);
  __builtin_memcpy(p, &bytes, 4);
}
constexpr bool kConvertsHalves = true;  // one instruction
inline F4 load4_f16(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline void store_f16(uint16_t* p, F4 a) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}  // by FPCR: to nearest even
inline void transpose4(F4& a, F4& b, F4& c, F4& d) {
  const float32x4x2_t ab = vtrnq_f32(a, b), cd = vtrnq_f32(c, d);  // a0 b0 a2 b2, a1 b1 a3 b3
  a = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0]));
  b = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1]));
  c = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0]));
  d = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1]));
}
inline float fold4(F4 a) {  // (a0 + a2) + (a1 + a3)
  const float32x2_t s = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}

// clang-format off
#include "kernels/isa/two_fours.h"
#include "kernels/isa/wide_pair.h"
// clang-format on

inline I as_i(int32x4_t low, int32x4_t high) { return {{low}, {high}}; }

inline int16x8_t add_neighbours(int16x8_t a, int16x8_t b) { return vpaddq_s16(a, b); }
inline int32x4_t add_neighbours(int32x4_t a, int32x4_t b) { return vpaddq_s32(a, b); }
inline int16x8_t add_high(int16x8_t sum, int8x16_t a, int8x16_t b) { return vmlal_high_s8(sum, a, b); }
