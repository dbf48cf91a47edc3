// exp and tanh of docs/arithmetic.md A10, written once for a float and for vectors of floats. Included inside
// a namespace that has for each such type V: + - * /, set<V>(float), lt(V, V) and gt(V, V) giving a mask,
// is_nan(V), select(mask, if_true, if_false), abs(V), copysign(V, V), scale_by_bits(y, t) = bits(y) +
// (bits(t) << 23), all_within(V, float): no lane is NaN or of a larger magnitude. NaN propagates; no FMA.

template <class V>
inline V exp(V x) {
  const V magic = set<V>(0x1.8p23f);
  const V t = x * set<V>(0x1.715476p+0f) + magic;
  const V n = t - magic;
  const V r = (x - n * set<V>(0x1.63p-1f)) + n * set<V>(0x1.bd0106p-13f);
  V p = set<V>(0x1.6a2434p-10f);
  p = p * r + set<V>(0x1.1239e2p-7f);
  p = p * r + set<V>(0x1.5558f2p-5f);
  p = p * r + set<V>(0x1.555492p-3f);
  p = p * r + set<V>(0x1.fffffcp-2f);
  const V y = set<V>(1.0f) + (r + (r * r) * p);
  V result = scale_by_bits(y, t);
  if (all_within(x, 87.33f)) return result;
  result = select(lt(x, set<V>(-87.33f)), set<V>(0.0f), result);
  result = select(gt(x, set<V>(0x1.62e42ep+6f)), set<V>(__builtin_inff()), result);
  return select(is_nan(x), x, result);
}

template <class V>
inline V tanh(V x) {
  const V a = abs(x);
  const V z = x * x;
  V p = set<V>(-0x1.76ac1ap-8f);
  p = p * z + set<V>(0x1.5256d8p-6f);
  p = p * z + set<V>(-0x1.b84448p-5f);
  p = p * z + set<V>(0x1.110768p-3f);
  p = p * z + set<V>(-0x1.555534p-2f);
  const V near_zero = x + (x * z) * p;
  const V far = set<V>(1.0f) - set<V>(2.0f) / (exp(a + a) + set<V>(1.0f));
  return select(lt(a, set<V>(0.625f)), near_zero, copysign(far, x));
}
