// The 8-lane float F, int32 I and Mask and the 16-lane W and WI in plain C++: the reference for those of
// every other instruction set.

struct F {
  float v[kLanes];
};
struct I {
  int32_t v[kLanes];
};
struct Mask {
  bool v[kLanes];
};

#define KRAFLA_LANES(expression)                            \
  do {                                                      \
    for (int i = 0; i < kLanes; ++i) r.v[i] = (expression); \
  } while (0)

inline F set1(float x) {
  F r;
  KRAFLA_LANES(x);
  return r;
}
inline F operator+(F a, F b) {
  F r;
  KRAFLA_LANES(a.v[i] + b.v[i]);
  return r;
}
inline F operator-(F a, F b) {
  F r;
  KRAFLA_LANES(a.v[i] - b.v[i]);
  return r;
}
inline F operator*(F a, F b) {
  F r;
  KRAFLA_LANES(a.v[i] * b.v[i]);
  return r;
}
inline F operator/(F a, F b) {
  F r;
  KRAFLA_LANES(a.v[i] / b.v[i]);
  return r;
}
inline Mask lt(F a, F b) {
  Mask r;
  KRAFLA_LANES(a.v[i] < b.v[i]);
  return r;
}
inline Mask gt(F a, F b) { return lt(b, a); }
inline Mask is_nan(F a) {
  Mask r;
  KRAFLA_LANES(a.v[i] != a.v[i]);
  return r;
}
/// Lanes l with first <= base + l < last.
inline Mask lanes_between(int base, int first, int last) {
  Mask r;
  KRAFLA_LANES(base + i >= first && base + i < last);
  return r;
}
inline F select(Mask m, F a, F b) {
  F r;
  KRAFLA_LANES(m.v[i] ? a.v[i] : b.v[i]);
  return r;
}
inline F min(F a, F b) {
  F r;
  KRAFLA_LANES(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
  return r;
}
inline F max(F a, F b) {
  F r;
  KRAFLA_LANES(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
  return r;
}
inline uint32_t bits(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}
inline float from_bits(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}
inline F negate(F a) {
  F r;
  KRAFLA_LANES(from_bits(bits(a.v[i]) ^ 0x80000000u));
  return r;
}
inline F abs(F a) {
  F r;
  KRAFLA_LANES(from_bits(bits(a.v[i]) & 0x7fffffffu));
  return r;
}
inline F copysign(F a, F s) {
  F r;
  KRAFLA_LANES(from_bits((bits(a.v[i]) & 0x7fffffffu) | (bits(s.v[i]) & 0x80000000u)));
  return r;
}
inline F scale_by_bits(F y, F t) {
  F r;
  KRAFLA_LANES(from_bits(bits(y.v[i]) + (bits(t.v[i]) << 23)));
  return r;
}
/// No lane is NaN or of a magnitude beyond the limit.
inline bool all_within(F a, float limit) {
  bool r = true;
  for (int i = 0; i < kLanes; ++i) r = r && from_bits(bits(a.v[i]) & 0x7fffffffu) <= limit;
  return r;
}
inline F load(const float* p) {
  F r;
  KRAFLA_LANES(p[i]);
  return r;
}
inline void store(float* p, F a) {
  for (int i = 0; i < kLanes; ++i) p[i] = a.v[i];
}
inline F to_float(I a) {
  F r;
  KRAFLA_LANES(static_cast<float>(a.v[i]));
  return r;
}
/// Rounds toward zero; lanes outside int32 give any value.
inline I to_int(F a) {
  I r;
  KRAFLA_LANES((a.v[i] > -2147483648.0f && a.v[i] < 2147483648.0f) ? static_cast<int32_t>(a.v[i]) : 0);
  return r;
}
inline void store(int32_t* p, I a) {
  for (int i = 0; i < kLanes; ++i) p[i] = a.v[i];
}
inline F load_i8(const int8_t* p) {
  F r;
  KRAFLA_LANES(static_cast<float>(p[i]));
  return r;
}
/// The low bytes of the lanes.
inline void store_bytes(uint8_t* p, I a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint8_t>(a.v[i]);
}
/// v[r][c] becomes v[c][r].
inline void transpose(F (&v)[8]) {
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < r; ++c) {
      const float t = v[r].v[c];
      v[r].v[c] = v[c].v[r];
      v[c].v[r] = t;
    }
}
constexpr bool kConvertsHalves = false;  // a dozen instructions
inline F load_f16(const uint16_t* p) {
  F r;
  KRAFLA_LANES(f16_to_float(p[i]));
  return r;
}
inline void store_f16(uint16_t* p, F a) {
  for (int i = 0; i < kLanes; ++i) p[i] = float_to_f16(a.v[i]);
}
#undef KRAFLA_LANES

inline float fold8(F a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}

#include "kernels/isa/wide_pair.h"
