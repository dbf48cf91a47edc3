// The 8-lane F, I and Mask as two vectors of 4, for instruction sets with registers of 128 bits. Those give
// F4, I4 and M4 with the same operations, named with a 4 where only the result tells the type: set4, load4,
// load4_f16, load4_i8, lanes_between4, transpose4, fold4.

struct F {
  F4 low, high;
};
struct I {
  I4 low, high;
};
struct Mask {
  M4 low, high;
};

inline F set1(float x) { return {set4(x), set4(x)}; }
inline F operator+(F a, F b) { return {a.low + b.low, a.high + b.high}; }
inline F operator-(F a, F b) { return {a.low - b.low, a.high - b.high}; }
inline F operator*(F a, F b) { return {a.low * b.low, a.high * b.high}; }
inline F operator/(F a, F b) { return {a.low / b.low, a.high / b.high}; }
inline Mask lt(F a, F b) { return {lt(a.low, b.low), lt(a.high, b.high)}; }
inline Mask gt(F a, F b) { return lt(b, a); }
inline Mask is_nan(F a) { return {is_nan(a.low), is_nan(a.high)}; }
inline Mask lanes_between(int base, int first, int last) {
  return {lanes_between4(base, first, last), lanes_between4(base + 4, first, last)};
}
inline F select(Mask m, F a, F b) { return {select(m.low, a.low, b.low), select(m.high, a.high, b.high)}; }
inline F min(F a, F b) { return {min(a.low, b.low), min(a.high, b.high)}; }
inline F max(F a, F b) { return {max(a.low, b.low), max(a.high, b.high)}; }
inline F negate(F a) { return {negate(a.low), negate(a.high)}; }
inline F abs(F a) { return {abs(a.low), abs(a.high)}; }
inline F copysign(F a, F s) { return {copysign(a.low, s.low), copysign(a.high, s.high)}; }
inline F scale_by_bits(F y, F t) { return {scale_by_bits(y.low, t.low), scale_by_bits(y.high, t.high)}; }
inline bool all_within(F a, float limit) { return all_within(a.low, limit) && all_within(a.high, limit); }
inline F load(const float* p) { return {load4(p), load4(p + 4)}; }
inline void store(float* p, F a) {
  store(p, a.low);
  store(p + 4, a.high);
}
inline F to_float(I a) { return {to_float(a.low), to_float(a.high)}; }
inline I to_int(F a) { return {to_int(a.low), to_int(a.high)}; }
inline void store(int32_t* p, I a) {
  store(p, a.low);
  store(p + 4, a.high);
}
inline F load_i8(const int8_t* p) { return {load4_i8(p), load4_i8(p + 4)}; }
inline void store_bytes(uint8_t* p, I a) {
  store_bytes(p, a.low);
  store_bytes(p + 4, a.high);
}
inline F load_f16(const uint16_t* p) { return {load4_f16(p), load4_f16(p + 4)}; }
inline void store_f16(uint16_t* p, F a) {
  store_f16(p, a.low);
  store_f16(p + 4, a.high);
}
/// v[r][c] becomes v[c][r]: four squares of 4, of which two change places.
inline void transpose(F (&v)[8]) {
  transpose4(v[0].low, v[1].low, v[2].low, v[3].low);
  transpose4(v[0].high, v[1].high, v[2].high, v[3].high);
  transpose4(v[4].low, v[5].low, v[6].low, v[7].low);
  transpose4(v[4].high, v[5].high, v[6].high, v[7].high);
  for (int i = 0; i < 4; ++i) {
    const F4 t = v[i].high;
    v[i].high = v[i + 4].low;
    v[i + 4].low = t;
  }
}
inline float fold8(F a) { return fold4(a.low + a.high); }
