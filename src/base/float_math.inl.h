// exp and tanh of docs/arithmetic.md A10, written once for a float and for a vector of floats. Included inside a
// namespace where F is that type and these primitives exist: + - * /, set1<F>(float), lt(F, F) and gt(F, F) giving a
// mask, is_nan(F), select(mask, if_true, if_false), abs(F), copysign(F, F), scale_by_bits(y, t) = bits(y) + (bits(t) << 23).
// NaN propagates; no FMA.

inline F exp(F x) {
  const F magic = set1(0x1.8p23f);
  const F t = x * set1(0x1.715476p+0f) + magic;
  const F n = t - magic;
  const F r = (x - n * set1(0x1.63p-1f)) + n * set1(0x1.bd0106p-13f);
  F p = set1(0x1.6a2434p-10f);
  p = p * r + set1(0x1.1239e2p-7f);
  p = p * r + set1(0x1.5558f2p-5f);
  p = p * r + set1(0x1.555492p-3f);
  p = p * r + set1(0x1.fffffcp-2f);
  const F y = set1(1.0f) + (r + (r * r) * p);
  F result = scale_by_bits(y, t);
  result = select(lt(x, set1(-87.33f)), set1(0.0f), result);
  result = select(gt(x, set1(0x1.62e42ep+6f)), set1(__builtin_inff()), result);
  return select(is_nan(x), x, result);
}

inline F tanh(F x) {
  const F a = abs(x);
  const F z = x * x;
  F p = set1(-0x1.76ac1ap-8f);
  p = p * z + set1(0x1.5256d8p-6f);
  p = p * z + set1(-0x1.b84448p-5f);
  p = p * z + set1(0x1.110768p-3f);
  p = p * z + set1(-0x1.555534p-2f);
  const F near_zero = x + (x * z) * p;
  const F far = set1(1.0f) - set1(2.0f) / (exp(a + a) + set1(1.0f));
  return select(lt(a, set1(0.625f)), near_zero, copysign(far, x));
}
