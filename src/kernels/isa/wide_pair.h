// 16 lanes as two vectors of 8, for instruction sets without registers of 16.

struct W {
  F low, high;
};
struct WI {
  I low, high;
};

struct WMask {
  Mask low, high;
};

inline W operator+(W a, W b) { return {a.low + b.low, a.high + b.high}; }
inline W operator-(W a, W b) { return {a.low - b.low, a.high - b.high}; }
inline W operator*(W a, W b) { return {a.low * b.low, a.high * b.high}; }
inline W operator/(W a, W b) { return {a.low / b.low, a.high / b.high}; }
inline WMask lt(W a, W b) { return {lt(a.low, b.low), lt(a.high, b.high)}; }
inline WMask gt(W a, W b) { return {gt(a.low, b.low), gt(a.high, b.high)}; }
inline WMask is_nan(W a) { return {is_nan(a.low), is_nan(a.high)}; }
inline WMask lanes_between16(int base, int first, int last) {
  return {lanes_between(base, first, last), lanes_between(base + kLanes, first, last)};
}
inline W select(WMask m, W a, W b) { return {select(m.low, a.low, b.low), select(m.high, a.high, b.high)}; }
inline W max(W a, W b) { return {max(a.low, b.low), max(a.high, b.high)}; }
inline W negate(W a) { return {negate(a.low), negate(a.high)}; }
inline W abs(W a) { return {abs(a.low), abs(a.high)}; }
inline W copysign(W a, W s) { return {copysign(a.low, s.low), copysign(a.high, s.high)}; }
inline W scale_by_bits(W y, W t) { return {scale_by_bits(y.low, t.low), scale_by_bits(y.high, t.high)}; }
inline bool all_within(W a, float limit) { return all_within(a.low, limit) && all_within(a.high, limit); }
inline F low(W a) { return a.low; }
inline F high(W a) { return a.high; }
constexpr int kProductVectors = 2;  // of a product in attention: three queries have 12 sums of 8 lanes

inline W set16(float x) { return {set1(x), set1(x)}; }
inline W load16(const float* p) { return {load(p), load(p + kLanes)}; }
inline W load16_f16(const uint16_t* p) { return {load_f16(p), load_f16(p + kLanes)}; }
inline void store(float* p, W a) {
  store(p, a.low);
  store(p + kLanes, a.high);
}
inline W to_float(WI a) { return {to_float(a.low), to_float(a.high)}; }
