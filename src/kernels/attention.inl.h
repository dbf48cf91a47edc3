// A6: queries against one page. Scores and the weighted sum of values are the same small product
// C[query][lane] = sum over k of A[query][k] * B[k][lane], k ascending, one accumulator per element.

inline W load_wide(const float* p) { return load16(p); }
inline W load_wide(const uint16_t* p) { return load16_f16(p); }
inline F load_narrow(const float* p) { return load(p); }
inline F load_narrow(const uint16_t* p) { return load_f16(p); }

constexpr size_t kManyLanes = kProductVectors * kWide;  // of a product_block, unless fewer are left

/// Q queries, V vectors of lanes: c[i * c_stride + 16v] for rows a[i] of k1 - k0 factors, b rows b_stride
/// apart, of f32 or f16.
template <int Q, int V, class Element>
inline void product_block(const float* const* a, const Element* b, size_t b_stride, int k0, int k1, float* c,
                          size_t c_stride, Prefetcher& ahead) {
  W acc[Q][V];
  unroll<Q>([&](auto i) { unroll<V>([&](auto v) { acc[i][v] = set16(0.0f); }); });
  for (int k = k0; k < k1; ++k) {
    const Element* row = b + static_cast<size_t>(k) * b_stride;
    ahead.fetch();
    W bv[V];
    unroll<V>([&](auto v) { bv[v] = load_wide(row + v * kWide); });
    unroll<Q>([&](auto i) {
      const W av = set16(a[i][k]);
      unroll<V>([&](auto v) { acc[i][v] = acc[i][v] + av * bv[v]; });
    });
  }
  unroll<Q>([&](auto i) { unroll<V>([&](auto v) { store(c + i * c_stride + v * kWide, acc[i][v]); }); });
}

/// The same for 8 lanes.
template <int Q, class Element>
inline void product_rest(const float* const* a, const Element* b, size_t b_stride, int k0, int k1, float* c,
                         size_t c_stride) {
  F acc[Q];
  unroll<Q>([&](auto i) { acc[i] = set1(0.0f); });
  for (int k = k0; k < k1; ++k) {
    const F bv = load_narrow(b + static_cast<size_t>(k) * b_stride);
    unroll<Q>([&](auto i) { acc[i] = acc[i] + set1(a[i][k]) * bv; });
  }
  unroll<Q>([&](auto i) { store(c + i * c_stride, acc[i]); });
}

/// Q rows over `lanes` (a multiple of 8) columns.
template <int Q, class Element>
inline void product_rows(const float* const* a, const Element* b, size_t b_stride, int k0, int k1,
                         size_t lanes, float* c, size_t c_stride, Prefetcher& ahead) {
  size_t j = 0;
  for (; j + kManyLanes <= lanes; j += kManyLanes)
    product_block<Q, kProductVectors>(a, b + j, b_stride, k0, k1, c + j, c_stride, ahead);
  for (; j + kWide <= lanes; j += kWide)
    product_block<Q, 1>(a, b + j, b_stride, k0, k1, c + j, c_stride, ahead);
  if (j < lanes) product_rest<Q>(a, b + j, b_stride, k0, k1, c + j, c_stride);
}

/// n rows. after: after_bytes bytes that are read next and are prefetched; or null.
template <class Element>
inline void product(const float* const* a, int n, const Element* b, size_t b_stride, int k0, int k1,
                    size_t lanes, float* c, size_t c_stride, const void* after = nullptr,
                    size_t after_bytes = 0) {
  // Every product_block below prefetches a piece for each k. A block has up to three rows and kManyLanes or
  // kWide lanes.
  const size_t passes = static_cast<size_t>((n + 2) / 3) * (lanes / kManyLanes + lanes % kManyLanes / kWide);
  Prefetcher ahead(static_cast<const uint8_t*>(after), after != nullptr ? after_bytes : 0,
                   passes * static_cast<size_t>(k1 - k0));
  const auto rows = [&](int i, auto count) {
    product_rows<count>(a + i, b, b_stride, k0, k1, lanes, c + i * c_stride, c_stride, ahead);
  };
  int i = 0;
  for (; n - i == 3 || n - i > 4; i += 3)
    rows(i, Index<3>{});  // four rows are two and two: one row has too few sums to hide an addition's latency
  for (; n - i >= 2; i += 2) rows(i, Index<2>{});
  if (n - i == 1) rows(i, Index<1>{});
}

inline void decode_f16(const uint16_t* from, size_t n, float* to) {  // n: a multiple of 8
  for (size_t i = 0; i < n; i += kLanes) store(to + i, load_f16(from + i));
}

/// Blocks of at most 32 with a scale of f16 (A6). The scale is NaN where a value is not finite or f16 cannot
/// hold the scale.
void quantize_kv(const float* x, size_t n, int8_t* q, uint16_t* d) {
  constexpr int kVectors = kKvBlock / kLanes;
  constexpr uint16_t kInfinity = 0x7c00, kNotANumber = 0x7e00;
  for (size_t at = 0; at < n; at += kKvBlock) {
    const size_t count = n - at < kKvBlock ? n - at : kKvBlock;
    float padded[kKvBlock];
    const float* block = x + at;
    if (count < kKvBlock) {
      for (size_t i = 0; i < kKvBlock; ++i) padded[i] = i < count ? block[i] : 0.0f;
      block = padded;
    }
    F top = set1(0.0f);
    F not_finite = set1(0.0f);  // x - x is NaN for inf and NaN
    for (int v = 0; v < kVectors; ++v) {
      const F a = abs(load(block + v * kLanes));
      top = select(gt(a, top), a, top);
      not_finite = not_finite + (a - a);
    }
    float lanes[kLanes], bad[kLanes];
    store(lanes, top);
    store(bad, not_finite);
    float amax = 0;
    for (int i = 0; i < kLanes; ++i) {
      if (lanes[i] > amax) amax = lanes[i];
      if (bad[i] != 0) amax = __builtin_inff();
    }
    uint16_t half = float_to_f16(amax / 127.0f);
    if (half == kInfinity) half = kNotANumber;
    *d++ = half;
    const F inverse = set1(half == 0 || half == kNotANumber ? 0.0f : 1.0f / f16_to_float(half));
    int32_t levels[kKvBlock] = {};
    if (half != kNotANumber)
      for (int v = 0; v < kVectors; ++v) {
        const F y = load(block + v * kLanes) * inverse;
        F level = y + copysign(set1(0.5f), y);
        level = select(gt(level, set1(127.0f)), set1(127.0f), level);
        level = select(lt(level, set1(-127.0f)), set1(-127.0f), level);
        store(levels + v * kLanes, to_int(level));
      }
    for (size_t i = 0; i < count; ++i) q[at + i] = static_cast<int8_t>(levels[i]);
  }
}

/// q8_0: the keys [j0, j1) of a page as floats.
inline void decode_keys_q8(const int8_t* from, size_t dim, int j0, int j1, float* scales, float* to) {
  const size_t blocks = (dim + kKvBlock - 1) / kKvBlock;
  decode_f16(reinterpret_cast<const uint16_t*>(from + dim * kPage), blocks * kPage, scales);
  for (int j = j0; j < j1; j += kLanes)
    for (size_t b = 0; b < blocks; ++b) {
      const F scale = load(scales + b * kPage + j);
      const size_t end = b * kKvBlock + kKvBlock < dim ? b * kKvBlock + kKvBlock : dim;
      for (size_t d = b * kKvBlock; d < end; ++d)
        store(to + d * kPage + j, load_i8(from + d * kPage + j) * scale);
    }
}

/// q8_0: values [first, last) as floats with rows padded to whole vectors; the padding has any values. The
/// last vector of a row reads into the next row, that of the last row into the scales.
inline void decode_values_q8(const int8_t* from, size_t dim, int first, int last, size_t padded,
                             float* scales, float* to) {
  const size_t blocks = (dim + kKvBlock - 1) / kKvBlock;
  decode_f16(reinterpret_cast<const uint16_t*>(from + dim * kPage), blocks * kPage, scales);
  for (int j = first; j < last; ++j)
    for (size_t d = 0; d < padded; d += kLanes)
      store(to + j * padded + d, load_i8(from + j * dim + d) * set1(scales[j * blocks + d / kKvBlock]));
}

/// V rows [first, last) as floats with rows padded to whole vectors.
inline void decode_values(const AttendPage& p, int first, int last, size_t padded, float* to) {
  const size_t dim = static_cast<size_t>(p.head_dim);
  for (int j = first; j < last; ++j) {
    float* row = to + j * padded;
    size_t d = 0;
    if (p.type == KvType::f16) {
      const uint16_t* from = static_cast<const uint16_t*>(p.v) + j * dim;
      for (; d + kLanes <= dim; d += kLanes) store(row + d, load_f16(from + d));
      for (; d < dim; ++d) row[d] = f16_to_float(from[d]);
    } else {
      __builtin_memcpy(row, static_cast<const float*>(p.v) + j * dim, dim * sizeof(float));
      d = dim;
    }
    for (; d < padded; ++d) row[d] = 0.0f;
  }
}

/// Turns scores [nq][64] into exponentials over the visible keys (0 elsewhere) and sets p.m and p.l. All
/// visible keys are in [j0, j1), multiples of kWide. Eight queries at a time, so that their maxima and sums
/// are one vector.
inline void softmax_page(const AttendPage& p, int j0, int j1, float* scores) {
  const W lowest = set16(-__builtin_inff());
  for (int i0 = 0; i0 < p.nq; i0 += kLanes, scores += kLanes * kPage) {
    const int n = p.nq - i0 < kLanes ? p.nq - i0 : kLanes;
    const auto visible = [&](int i, int j, W a, W otherwise) {
      const int first = p.first[i0 + i], last = p.last[i0 + i];
      return first <= j && j + kWide <= last ? a : select(lanes_between16(j, first, last), a, otherwise);
    };
    F each[kLanes];
    for (int i = 0; i < kLanes; ++i) each[i] = low(lowest);
    for (int i = 0; i < n; ++i) {
      W top = lowest;
      for (int j = j0; j < j1; j += kWide) {
        float* const at = scores + i * kPage + j;
        W s = load16(at) * set16(p.scale);
        if (p.softcap != 0) s = soft_cap(s, p.softcap);
        store(at, s);
        top = max(visible(i, j, s, lowest), top);
      }
      each[i] = max(low(top), high(top));
    }
    transpose(each);
    for (int i = 1; i < kLanes; ++i) each[0] = max(each[i], each[0]);
    float m[kLanes];
    store(m, each[0]);
    for (int i = 0; i < kLanes; ++i) each[i] = set1(0.0f);
    for (int i = 0; i < n; ++i) {
      p.m[i0 + i] = m[i];
      for (int j = j0; j < j1; j += kWide) {
        float* const at = scores + i * kPage + j;
        const W e = visible(i, j, exp(load16(at) - set16(m[i])), set16(0.0f));
        store(at, e);
        each[i] = (each[i] + low(e)) + high(e);
      }
    }
    transpose(each);
    float l[kLanes];
    store(l, fold_lanes([&](auto lane) { return each[lane]; }));
    for (int i = 0; i < n; ++i) p.l[i0 + i] = l[i];
  }
}

void attend_page(const AttendPage& p) {
  const size_t dim = static_cast<size_t>(p.head_dim);
  const size_t padded = round_up<size_t>(dim, kLanes);
  float* keys = p.scratch;
  float* values = keys + dim * kPage;
  float* scores = values + padded * kPage;
  float* scales = scores + static_cast<size_t>(p.nq) * kPage;
  int first = kPage;
  int last = 0;
  for (int i = 0; i < p.nq; ++i) {
    if (p.first[i] < first) first = p.first[i];
    if (p.last[i] > last) last = p.last[i];
  }
  const int j0 = first / kWide * kWide, j1 = round_up(last, kWide);  // keys that any query may see
  const size_t lanes = static_cast<size_t>(j1 - j0);
  // Few queries convert halves as they read them, once for each three queries; for more it is cheaper to
  // convert the page to floats first.
  constexpr int kMostDirect = kConvertsHalves ? 8 : 3;
  const bool direct = p.type == KvType::f16 && p.nq <= kMostDirect && dim % kLanes == 0;
  const auto *const k_f16 = static_cast<const uint16_t*>(p.k), *const v_f16 = static_cast<const uint16_t*>(
                                                                   p.v);  // if they are
  if (direct) {
    product(p.q, p.nq, k_f16 + j0, kPage, 0, p.head_dim, lanes, scores + j0, kPage, v_f16 + first * dim,
            static_cast<size_t>(last - first) * dim * sizeof(uint16_t));
  } else {
    const float* k = p.type == KvType::f32 ? static_cast<const float*>(p.k) : keys;
    if (p.type == KvType::f16)
      for (size_t at = static_cast<size_t>(j0); at < dim * kPage; at += kPage)
        decode_f16(k_f16 + at, lanes, keys + at);
    if (p.type == KvType::q8_0) decode_keys_q8(static_cast<const int8_t*>(p.k), dim, j0, j1, scales, keys);
    if (p.type == KvType::q8_0)
      decode_values_q8(static_cast<const int8_t*>(p.v), dim, first, last, padded, scales, values);
    else
      decode_values(p, first, last, padded, values);
    product(p.q, p.nq, k + j0, kPage, 0, p.head_dim, lanes, scores + j0, kPage);
  }
  softmax_page(p, j0, j1, scores);
  // Queries with the same visible keys share the loads of V; invisible keys are never multiplied.
  for (int i = 0; i < p.nq;) {
    constexpr int kMost = 12;  // four times three
    const float* e[kMost];
    int n = 0;
    while (n < kMost && i + n < p.nq && p.first[i + n] == p.first[i] && p.last[i + n] == p.last[i]) {
      e[n] = scores + (i + n) * kPage;
      ++n;
    }
    float* const o = p.o + i * p.o_stride;
    if (direct)
      product(e, n, v_f16, dim, p.first[i], p.last[i], dim, o, p.o_stride, i == 0 ? p.next_k : nullptr,
              dim * kPage * sizeof(uint16_t));
    else
      product(e, n, values, padded, p.first[i], p.last[i], padded, o, p.o_stride);
    i += n;
  }
}

void attend_merge(const AttendMerge& p) {
  for (size_t i0 = 0; i0 < p.nq; i0 += kLanes) {
    const size_t n = p.nq - i0 < kLanes ? p.nq - i0 : kLanes;
    const F M = load_part(p.M + i0, n), m = load_part(p.m + i0, n);
    const F top = select(gt(M, m), M, m);
    const F a = exp(M - top), b = exp(m - top);
    store_part(p.M + i0, top, n);
    store_part(p.L + i0, load_part(p.L + i0, n) * a + load_part(p.l + i0, n) * b, n);
    float mine[kLanes], its[kLanes];
    store(mine, a);
    store(its, b);
    for (size_t i = 0; i < n; ++i) {
      float* const O = p.O + (i0 + i) * p.o_stride;
      zip(O, O, p.o + (i0 + i) * p.o_stride, p.head_dim, [a = mine[i], b = its[i]](auto old, auto o) {
        return old * set<decltype(old)>(a) + o * set<decltype(o)>(b);
      });
    }
  }
}
