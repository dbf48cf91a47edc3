// 16 lanes as two vectors of 8, for instruction sets whose registers hold no 16.

struct W {
  F low, high;
};
struct WI {
  I low, high;
};

inline W operator+(W a, W b) { return {a.low + b.low, a.high + b.high}; }
inline W operator*(W a, W b) { return {a.low * b.low, a.high * b.high}; }
constexpr int kProductVectors = 2;  // W of a product in attention: three queries have 12 sums of 8 lanes

inline W set16(float x) { return {set1(x), set1(x)}; }
inline W load16(const float* p) { return {load(p), load(p + kLanes)}; }
inline W load16_f16(const uint16_t* p) { return {load_f16(p), load_f16(p + kLanes)}; }
inline void store(float* p, W a) {
  store(p, a.low);
  store(p + kLanes, a.high);
}
inline W to_float(WI a) { return {to_float(a.low), to_float(a.high)}; }
