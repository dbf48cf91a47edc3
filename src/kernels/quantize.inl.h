// Weights to Q8_0 and Q4_0 (docs/arithmetic.md, docs/formats/mlb.md): eight blocks at a time, one per lane,
// so that a sum over a block adds whole vectors, in the order of A1 and A2. Scales are given as floats,
// before they are rounded to f16. src/quant stores them, refuses those that are too large, and makes blocks
// whose scale is stored as 0 zero.

constexpr int kBlock = 32;

/// [32 elements][8 blocks] of n <= 8 blocks; the missing ones are zeros.
struct Blocks {
  F v[kBlock];
};

inline void load_blocks(const float* x, size_t n, Blocks& to) {
  float padded[kLanes * kBlock];
  if (n < kLanes) {
    __builtin_memset(padded, 0, sizeof(padded));
    __builtin_memcpy(padded, x, n * kBlock * sizeof(float));
    x = padded;
  }
  for (int i = 0; i < kBlock; i += kLanes) {
    F v[kLanes];
    unroll<kLanes>([&](auto b) { v[b] = load(x + b * kBlock + i); });
    transpose(v);
    unroll<kLanes>([&](auto j) { to.v[i + j] = v[j]; });
  }
}

/// The element of largest magnitude, the first on ties.
inline F largest_of(const Blocks& x) {
  F largest = x.v[0];
  for (int i = 1; i < kBlock; ++i) largest = select(gt(abs(x.v[i]), abs(largest)), x.v[i], largest);
  return largest;
}

inline F half_towards(F sign) { return copysign(set1(0.5f), sign); }

inline F rounded_to_f16(F d) {
  uint16_t half[kLanes];
  store_f16(half, d);
  return load_f16(half);
}

/// Levels 0..15 of n blocks as nibbles: element j low, element j + 16 high.
inline void store_q4(const Blocks& levels, size_t n, uint8_t* q) {
  constexpr int kHalf = kBlock / 2;
  for (int j = 0; j < kHalf; j += kLanes) {
    F bytes[kLanes];
    unroll<kLanes>([&](auto i) { bytes[i] = levels.v[j + i] + set1(16.0f) * levels.v[j + i + kHalf]; });
    transpose(bytes);
    uint8_t t[kLanes][kLanes];
    unroll<kLanes>([&](auto b) { store_bytes(t[b], to_int(bytes[b])); });
    for (size_t b = 0; b < n; ++b) __builtin_memcpy(q + b * kHalf + j, t[b], kLanes);
  }
}

inline void store_first(float* to, F a, size_t n) {
  float t[kLanes];
  store(t, a);
  for (size_t b = 0; b < n; ++b) to[b] = t[b];
}

/// x: finite weights of `blocks` blocks. q: 32 bytes a block; d: a scale a block.
void quantize_q8(const float* x, size_t blocks, bool f16, uint8_t* q, float* d) {
  for (size_t first = 0; first < blocks; first += kLanes) {
    const size_t n = blocks - first < kLanes ? blocks - first : kLanes;
    const F amax = largest_magnitudes(x + first * kBlock, n);
    const F scale = select(lt(amax, set1(1e-30f)), set1(0.0f), amax / set1(127.0f));
    const F stored = f16 ? rounded_to_f16(scale) : scale;
    const F factor = f16 ? set1(1.0f) / stored : set1(127.0f) / amax;
    const Mask some = gt(stored, set1(0.0f));
    float factors[kLanes];
    store(factors, select(some, factor, set1(0.0f)));
    store_first(d + first, select(some, scale, set1(0.0f)), n);
    for (size_t b = 0; b < n; ++b) {
      const size_t from = (first + b) * kBlock;
      unroll<kBlock / kLanes>([&](auto i) {
        const F y = load(x + from + i * kLanes) * set1(factors[b]);
        const F level = min(set1(127.0f), y + half_towards(y));
        store_bytes(q + from + i * kLanes, to_int(max(set1(-127.0f), level)));
      });
    }
  }
}

/// Eight blocks in the search: the weights x, the importance w of their errors, w * x, and the 0.5 of x's
/// sign that rounds a level. It is the same for all candidates: all targets are negative, so an element's
/// level has the same sign in each.
struct Search {
  Blocks x, w, wx, half;
};

/// Element i's level of the candidate. x * inverse is at least -8.41, so only the upper end needs a clamp.
inline F q4_level(const Search& s, int i, F inverse) {
  return to_float(to_int(min(set1(7.0f), s.x.v[i] * inverse + s.half.v[i])));
}

/// Numerator and denominator of a candidate's scale.
struct Ratio {
  F numerator, denominator;
};
inline Ratio operator+(Ratio a, Ratio b) {
  return {a.numerator + b.numerator, a.denominator + b.denominator};
}

/// The scale fitted by weighted least squares to the levels that `inverse` gives.
inline F fit(const Search& s, F inverse, Blocks& levels) {
  const Ratio r = fold_lanes([&](auto lane) {
    Ratio sum{set1(0.0f), set1(0.0f)};
    unroll<kBlock / kLanes>([&](auto k) {
      const int i = lane + k * kLanes;
      const F level = q4_level(s, i, inverse);
      levels.v[i] = level;
      sum = sum + Ratio{s.wx.v[i] * level, s.w.v[i] * (level * level)};
    });
    return sum;
  });
  return r.numerator / r.denominator;
}

/// The weighted error of levels and their scale.
inline F error_of(const Search& s, const Blocks& levels, F d) {
  return fold_lanes([&](auto lane) {
    F sum = set1(0.0f);
    unroll<kBlock / kLanes>([&](auto k) {
      const int i = lane + k * kLanes;
      const F e = s.x.v[i] - d * levels.v[i];
      sum = sum + s.w.v[i] * (e * e);
    });
    return sum;
  });
}

/// Where all weights of a block are zero (they underflowed), x * x in their place.
inline void replace_lost_weights(Blocks& w, const Blocks& x) {
  F any = set1(0.0f);
  for (int i = 0; i < kBlock; ++i) any = select(gt(w.v[i], set1(0.0f)), set1(1.0f), any);
  const Mask some = gt(any, set1(0.0f));
  for (int i = 0; i < kBlock; ++i) w.v[i] = select(some, w.v[i], x.v[i] * x.v[i]);
}

/// The best of 13 candidates per block. w: a weight per element, or null for x * x. Weights near the end of
/// float's range may give a scale that is NaN or infinite. The caller refuses it; the block's nibbles then
/// mean nothing.
void quantize_q4_search(const float* x, const float* w, size_t blocks, uint8_t* q, float* d) {
  const F zero = set1(0.0f);
  for (size_t b = 0; b < blocks; b += kLanes) {
    const size_t n = blocks - b < kLanes ? blocks - b : kLanes;
    Search s;
    load_blocks(x + b * kBlock, n, s.x);
    F largest = largest_of(s.x);
    F scale = select(lt(abs(largest), set1(1e-6f)), set1(1.0f) / abs(largest), set1(1.0f));
    const Mask empty = gt(scale, set1(FLT_MAX));  // zero, or so small that its inverse overflows
    scale = select(empty, set1(1.0f), scale);
    largest = largest * scale;
    for (int i = 0; i < kBlock; ++i) s.x.v[i] = s.x.v[i] * scale;
    if (w != nullptr) {
      load_blocks(w + b * kBlock, n, s.w);
      replace_lost_weights(s.w, s.x);
    } else {
      for (int i = 0; i < kBlock; ++i) s.w.v[i] = s.x.v[i] * s.x.v[i];
    }
    F inverse = set1(-6.0f) / largest;
    for (int i = 0; i < kBlock; ++i) {
      s.wx.v[i] = s.w.v[i] * s.x.v[i];
      s.half.v[i] = half_towards(s.x.v[i] * inverse);
    }
    // A candidate's error is summed after the next one's scale, so that no sum waits for a division.
    Blocks levels[2];
    F fitted = fit(s, inverse, levels[0]);
    F best_inverse = inverse;
    F best_d = fitted;
    F best_error = error_of(s, levels[0], fitted);
    inverse = set1(static_cast<float>(-6 - 0.2 * 1)) / largest;
    fitted = fit(s, inverse, levels[1]);
    for (int k = 1; k <= 12; ++k) {
      const F next_inverse = set1(static_cast<float>(-6 - 0.2 * (k + 1))) / largest;
      F next = zero;
      if (k < 12) next = fit(s, next_inverse, levels[(k + 1) % 2]);
      const F error = error_of(s, levels[k % 2], fitted);
      const Mask better = lt(error, best_error);  // false for NaN: the earlier candidate stays
      best_d = select(better, fitted, best_d);
      best_error = select(better, error, best_error);
      best_inverse = select(better, inverse, best_inverse);
      inverse = next_inverse;
      fitted = next;
    }
    for (int i = 0; i < kBlock; ++i)
      s.x.v[i] = select(empty, zero, q4_level(s, i, best_inverse)) + set1(8.0f);
    store_q4(s.x, n, q + b * (kBlock / 2));
    store_first(d + b, select(empty, zero, best_d / scale), n);
  }
}

/// llama.cpp's rounding: d = largest / -8. The levels follow from d before it is rounded to f16.
void quantize_q4_round(const float* x, size_t blocks, uint8_t* q, float* d) {
  const F zero = set1(0.0f);
  for (size_t b = 0; b < blocks; b += kLanes) {
    const size_t n = blocks - b < kLanes ? blocks - b : kLanes;
    Blocks v;
    load_blocks(x + b * kBlock, n, v);
    F scale = largest_of(v) / set1(-8.0f);
    const F inverse = set1(1.0f) / scale;
    const Mask good = lt(abs(inverse), set1(__builtin_inff()));
    scale = select(good, scale, zero);
    for (int i = 0; i < kBlock; ++i) {
      const F level = to_float(to_int(min(set1(15.0f), v.v[i] * inverse + set1(8.5f))));
      v.v[i] = select(good, level, set1(8.0f));
    }
    store_q4(v, n, q + b * (kBlock / 2));
    store_first(d + b, scale, n);
  }
}
