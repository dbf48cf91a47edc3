// Weights to Q8_0 and Q4_0 (docs/arithmetic.md, docs/formats/mlb.md): eight blocks at a time, one per lane, so that every sum over
// a block is the written-out order of A1 and A2 and needs no sideways additions. Scales are given as floats before any rounding
// to f16; src/quant stores them, refuses those that have no place, and turns what is stored as zero into zero blocks.

constexpr int kBlock = 32;

/// [32 elements][8 blocks] of n <= 8 blocks; the missing ones are zeros.
struct Blocks {
  F v[kBlock];
};

inline Blocks load_blocks(const float* x, size_t n) {
  float t[kBlock][kLanes];
  for (size_t b = 0; b < kLanes; ++b)
    for (int i = 0; i < kBlock; ++i) t[i][b] = b < n ? x[b * kBlock + i] : 0.0f;
  Blocks r;
  for (int i = 0; i < kBlock; ++i) r.v[i] = load(t[i]);
  return r;
}

/// fold8 of eight lanes that are vectors.
inline F fold_lanes(const F (&a)[8]) { return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])); }

/// The element of largest magnitude, the first on ties.
inline F largest_of(const Blocks& x) {
  F largest = x.v[0];
  for (int i = 1; i < kBlock; ++i) largest = select(gt(abs(x.v[i]), abs(largest)), x.v[i], largest);
  return largest;
}

inline F round_half_away(F y, F sign) { return to_float(to_int(y + copysign(set1(0.5f), sign))); }
inline F at_least(F y, float least) { return select(lt(y, set1(least)), set1(least), y); }
inline F at_most(F y, float most) { return select(gt(y, set1(most)), set1(most), y); }

inline F rounded_to_f16(F d) {
  uint16_t half[kLanes];
  store_f16(half, d);
  return load_f16(half);
}

/// Levels of n blocks as int8 (each in -127..127).
inline void store_q8(const Blocks& levels, size_t n, uint8_t* q) {
  int32_t t[kBlock][kLanes];
  for (int i = 0; i < kBlock; ++i) store(t[i], to_int(levels.v[i]));
  for (size_t b = 0; b < n; ++b)
    for (int i = 0; i < kBlock; ++i) q[b * kBlock + i] = static_cast<uint8_t>(t[i][b]);
}

/// Levels -8..7 of n blocks as nibbles: element j low, element j + 16 high.
inline void store_q4(const Blocks& levels, size_t n, uint8_t* q) {
  int32_t t[kBlock][kLanes];
  for (int i = 0; i < kBlock; ++i) store(t[i], to_int(levels.v[i] + set1(8.0f)));
  for (size_t b = 0; b < n; ++b)
    for (int j = 0; j < kBlock / 2; ++j)
      q[b * (kBlock / 2) + j] = static_cast<uint8_t>((t[j][b] & 15) | ((t[j + kBlock / 2][b] & 15) << 4));
}

inline void store_first(float* to, F a, size_t n) {
  float t[kLanes];
  store(t, a);
  for (size_t b = 0; b < n; ++b) to[b] = t[b];
}

/// x: finite weights of `blocks` blocks. q: 32 bytes a block; d: a scale a block.
void quantize_q8(const float* x, size_t blocks, bool f16, uint8_t* q, float* d) {
  for (size_t b = 0; b < blocks; b += kLanes) {
    const size_t n = blocks - b < kLanes ? blocks - b : kLanes;
    Blocks v = load_blocks(x + b * kBlock, n);
    const F amax = abs(largest_of(v));
    const Mask tiny = lt(amax, set1(1e-30f));
    const F scale = select(tiny, set1(0.0f), amax / set1(127.0f));
    const F stored = f16 ? rounded_to_f16(scale) : scale;
    F factor = f16 ? set1(1.0f) / stored : set1(127.0f) / amax;
    const Mask some = gt(stored, set1(0.0f));
    factor = select(some, factor, set1(0.0f));
    for (int i = 0; i < kBlock; ++i) v.v[i] = at_least(at_most(round_half_away(v.v[i] * factor, v.v[i]), 127.0f), -127.0f);
    store_q8(v, n, q + b * kBlock);
    store_first(d + b, select(some, scale, set1(0.0f)), n);
  }
}

/// The levels of one candidate. |y| is at most 8.4 and a little, so only the upper end needs a clamp.
inline F q4_level(F x, F inverse) {
  const F y = x * inverse;
  return at_most(round_half_away(y, y), 7.0f);
}

/// Scale and error of a candidate.
struct Fit {
  F d;
  F error;
};

/// The scale fitted by weighted least squares to the levels that `inverse` gives, and its weighted error. wx: w * x.
inline Fit fit(const Blocks& x, const Blocks& w, const Blocks& wx, F inverse) {
  F numerator[kLanes], denominator[kLanes], error[kLanes];
  Blocks levels;
  for (int lane = 0; lane < kLanes; ++lane) {
    F num = set1(0.0f);
    F den = set1(0.0f);
    for (int i = lane; i < kBlock; i += kLanes) {
      const F level = q4_level(x.v[i], inverse);
      num = num + wx.v[i] * level;
      den = den + w.v[i] * (level * level);
      levels.v[i] = level;
    }
    numerator[lane] = num;
    denominator[lane] = den;
  }
  const F d = fold_lanes(numerator) / fold_lanes(denominator);
  for (int lane = 0; lane < kLanes; ++lane) {
    F sum = set1(0.0f);
    for (int i = lane; i < kBlock; i += kLanes) {
      const F e = x.v[i] - d * levels.v[i];
      sum = sum + w.v[i] * (e * e);
    }
    error[lane] = sum;
  }
  return {d, fold_lanes(error)};
}

/// Weights of a block all zero (an importance times what underflowed): x * x in their place.
inline void replace_lost_weights(Blocks& w, const Blocks& x) {
  F any = set1(0.0f);
  for (int i = 0; i < kBlock; ++i) any = select(gt(w.v[i], set1(0.0f)), set1(1.0f), any);
  const Mask some = gt(any, set1(0.0f));
  for (int i = 0; i < kBlock; ++i) w.v[i] = select(some, w.v[i], x.v[i] * x.v[i]);
}

/// The best of 13 candidates per block. w: a weight per element, or null for x * x. A scale that came out NaN or infinite (weights
/// near the end of float's range) is given as it is, for the caller to refuse; its nibbles then mean nothing.
void quantize_q4_search(const float* x, const float* w, size_t blocks, uint8_t* q, float* d) {
  const F zero = set1(0.0f);
  for (size_t b = 0; b < blocks; b += kLanes) {
    const size_t n = blocks - b < kLanes ? blocks - b : kLanes;
    Blocks v = load_blocks(x + b * kBlock, n);
    F largest = largest_of(v);
    F scale = select(lt(abs(largest), set1(1e-6f)), set1(1.0f) / abs(largest), set1(1.0f));
    const Mask empty = gt(scale, set1(FLT_MAX));  // zero, or so small that its inverse overflows
    scale = select(empty, set1(1.0f), scale);
    largest = largest * scale;
    for (int i = 0; i < kBlock; ++i) v.v[i] = v.v[i] * scale;
    Blocks weights;
    if (w != nullptr) {
      weights = load_blocks(w + b * kBlock, n);
      replace_lost_weights(weights, v);
    } else {
      for (int i = 0; i < kBlock; ++i) weights.v[i] = v.v[i] * v.v[i];
    }
    Blocks wx;
    for (int i = 0; i < kBlock; ++i) wx.v[i] = weights.v[i] * v.v[i];
    F best_inverse = set1(-6.0f) / largest;
    Fit best = fit(v, weights, wx, best_inverse);
    for (int k = 1; k <= 12; ++k) {
      const F inverse = set1(static_cast<float>(-6 - 0.2 * k)) / largest;
      const Fit next = fit(v, weights, wx, inverse);
      const Mask better = lt(next.error, best.error);  // false for NaN: the earlier candidate stays
      best.d = select(better, next.d, best.d);
      best.error = select(better, next.error, best.error);
      best_inverse = select(better, inverse, best_inverse);
    }
    for (int i = 0; i < kBlock; ++i) v.v[i] = select(empty, zero, q4_level(v.v[i], best_inverse));
    store_q4(v, n, q + b * (kBlock / 2));
    store_first(d + b, select(empty, zero, best.d / scale), n);
  }
}

/// llama.cpp's rounding: d = largest / -8, levels from d as it is before any rounding to f16.
void quantize_q4_round(const float* x, size_t blocks, uint8_t* q, float* d) {
  const F zero = set1(0.0f);
  for (size_t b = 0; b < blocks; b += kLanes) {
    const size_t n = blocks - b < kLanes ? blocks - b : kLanes;
    Blocks v = load_blocks(x + b * kBlock, n);
    F scale = largest_of(v) / set1(-8.0f);
    const F inverse = set1(1.0f) / scale;
    const Mask good = lt(abs(inverse), set1(__builtin_inff()));
    scale = select(good, scale, zero);
    for (int i = 0; i < kBlock; ++i) {
      const F level = at_most(to_float(to_int(v.v[i] * inverse + set1(8.5f))), 15.0f) - set1(8.0f);
      v.v[i] = select(good, level, zero);
    }
    store_q4(v, n, q + b * (kBlock / 2));
    store_first(d + b, scale, n);
  }
}
