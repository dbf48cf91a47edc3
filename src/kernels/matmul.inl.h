// A3: quantized activation rows, GEMV on the mapped rows, GEMM on packed tiles.

/// A row of blocks, padded to eight with zeros (d = 0: they add +0).
inline size_t groups_of(size_t cols) { return (cols / 32 + 7) / 8; }

size_t activation_bytes(size_t cols) { return groups_of(cols) * sizeof(Blocks8); }

/// The largest magnitude of each of n <= 8 blocks of 32, a block per lane; NaN where a value is not finite.
inline F largest_magnitudes(const float* x, size_t n) {
  const auto largest = [](size_t count, auto element) {  // t - t is NaN where t is not finite, else 0
    F top = set1(0.0f), bad = set1(0.0f);
    for (size_t i = 0; i < count; ++i) {
      const F t = element(i);
      top = max(t, top);
      bad = bad + (t - t);
    }
    return top + bad;
  };
  F most[kLanes];
  for (size_t b = 0; b < kLanes; ++b)
    most[b] = largest(b < n ? 32 / kLanes : 0, [&](size_t i) { return abs(load(x + b * 32 + i * kLanes)); });
  transpose(most);
  return largest(kLanes, [&](size_t i) { return most[i]; });
}

/// Quantizes blocks [0, n) of a group, n <= 8 (A3): its d, q and minus8. d = NaN and q = 0 where a value is
/// not finite.
inline void quantize_group(const float* x, size_t n, Blocks8& group) {
  const F amax = largest_magnitudes(x, n);
  const Mask tiny = lt(amax, set1(1e-30f)), not_finite = is_nan(amax);
  store(group.d, select(not_finite, set1(__builtin_nanf("")), select(tiny, set1(0.0f), amax / set1(127.0f))));
  float factors[kLanes];
  store(factors, select(tiny, set1(0.0f), set1(127.0f) / amax));
  F sums[kLanes];
  for (size_t l = 0; l < kLanes; ++l) {
    const F factor = set1(factors[l]);
    sums[l] = set1(0.0f);
    if (l >= n) {
      __builtin_memset(group.q[l], 0, 32);
      continue;
    }
    for (int v = 0; v < 32 / kLanes; ++v) {
      const F level = load(x + l * 32 + v * kLanes) * factor;
      const I q = to_int(level + copysign(set1(0.5f), level));  // |level| <= 127.00001, so q is at most 127
      store_bytes(reinterpret_cast<uint8_t*>(group.q[l]) + v * kLanes, q);
      sums[l] = sums[l] + to_float(q);  // exact
    }
  }
  transpose(sums);
  F sum = sums[0];
  for (int i = 1; i < kLanes; ++i) sum = sum + sums[i];
  store(group.minus8, to_int(sum * set1(-8.0f)));
  const float any = fold8(amax - amax);
  if (any == any) return;
  for (size_t l = 0; l < kLanes; ++l)
    if (group.d[l] != group.d[l]) {
      __builtin_memset(group.q[l], 0, 32);
      group.minus8[l] = 0;
    }
}

void quantize_activation(const float* x, size_t cols, void* out) {
  Blocks8* group = static_cast<Blocks8*>(out);
  for (size_t blocks = cols / 32; blocks > 0; ++group, x += 32 * kLanes) {
    const size_t n = blocks < kLanes ? blocks : kLanes;
    quantize_group(x, n, *group);
    pack_extra(*group);
    blocks -= n;
  }
}

/// Eight scales from index i on.
template <bool f16>
inline F load_scales(const void* d, size_t i) {
  if constexpr (f16)
    return load_f16(static_cast<const uint16_t*>(d) + i);
  else
    return load(static_cast<const float*>(d) + i);
}

/// n < 8 scales of an array of `count`, from index i on; the other lanes are 0. Reads a whole vector where
/// the array is long enough.
template <bool f16, int n>
inline F load_scales_tail(const void* d, size_t i, size_t count) {
  if (i + kLanes <= count) return select(lanes_between(0, 0, n), load_scales<f16>(d, i), set1(0.0f));
  float lanes[kLanes] = {};
  for (int k = 0; k < n; ++k) {
    if constexpr (f16)
      lanes[k] = f16_to_float(static_cast<const uint16_t*>(d)[i + k]);
    else
      lanes[k] = static_cast<const float*>(d)[i + k];
  }
  return load(lanes);
}

/// Prefetches the weights 4096 columns later, some rows: the processor's own prefetching is not enough
/// (docs/kernels.md has figures). After `end` the thread goes on `jump` bytes further. A prefetch beyond the
/// file is harmless.
template <WeightType type>
inline void prefetch_ahead(const uint8_t* w, const uint8_t* end, ptrdiff_t jump) {
  const uint8_t* ahead = w + (type == q4_0 ? 2048 : 4096);
  ahead += ahead >= end ? jump : 0;
  unroll<type == q4_0 ? 2 : 4>([&](auto i) { __builtin_prefetch(ahead + i * 64); });
}

/// tail = blocks mod 8. Flat, or g++ 12 calls a function to convert scales.
template <WeightType type, bool f16, int tail>
__attribute__((flatten)) void gemv_rows(const Matrix& w, size_t row0, size_t row1, const Blocks8* x, float* y,
                                        const uint8_t* next) {
  const size_t blocks = w.cols / 32;
  const size_t whole = blocks - tail;
  const uint8_t* const end = w.q + row1 * blocks * block_bytes<type>;
  const ptrdiff_t jump = next != nullptr ? next - end : 0;
  for (size_t r = row0; r < row1; ++r) {
    const uint8_t* row = w.q + r * blocks * block_bytes<type>;
    const Blocks8* group = x;
    F acc = set1(0.0f);
    for (size_t b = 0; b < whole; b += 8, ++group) {
      prefetch_ahead<type>(row + b * block_bytes<type>, end, jump);
      const F scales = load_scales<f16>(w.d, r * blocks + b) * load(group->d);
      acc = acc + to_float(isums<type, 8>(row + b * block_bytes<type>, *group)) * scales;
    }
    if constexpr (tail > 0) {
      const F scales = load_scales_tail<f16, tail>(w.d, r * blocks + whole, w.rows * blocks) * load(group->d);
      acc = acc + to_float(isums<type, tail>(row + whole * block_bytes<type>, *group)) *
                      scales;  // +0 in the other lanes
    }
    *y++ = fold8(acc);
  }
}

template <WeightType type, bool f16>
void gemv_any_tail(const Matrix& w, size_t row0, size_t row1, const Blocks8* x, float* y,
                   const uint8_t* next) {
  switch (w.cols / 32 % 8) {
    case 0: return gemv_rows<type, f16, 0>(w, row0, row1, x, y, next);
    case 1: return gemv_rows<type, f16, 1>(w, row0, row1, x, y, next);
    case 2: return gemv_rows<type, f16, 2>(w, row0, row1, x, y, next);
    case 3: return gemv_rows<type, f16, 3>(w, row0, row1, x, y, next);
    case 4: return gemv_rows<type, f16, 4>(w, row0, row1, x, y, next);
    case 5: return gemv_rows<type, f16, 5>(w, row0, row1, x, y, next);
    case 6: return gemv_rows<type, f16, 6>(w, row0, row1, x, y, next);
    default: return gemv_rows<type, f16, 7>(w, row0, row1, x, y, next);
  }
}

void gemv(const Matrix& w, size_t row0, size_t row1, const void* x, float* y, const uint8_t* next) {
  const Blocks8* a = static_cast<const Blocks8*>(x);
  if (w.type == q4_0)
    w.d_f16 ? gemv_any_tail<q4_0, true>(w, row0, row1, a, y, next)
            : gemv_any_tail<q4_0, false>(w, row0, row1, a, y, next);
  else
    w.d_f16 ? gemv_any_tail<q8_0, true>(w, row0, row1, a, y, next)
            : gemv_any_tail<q8_0, false>(w, row0, row1, a, y, next);
}

constexpr size_t kOwnTileRows = kTileVectors * kWide;

size_t gemm_scratch(size_t cols) {
  return cols / 32 * kTileVectors * (tile_block_bytes<q8_0> + kWide * sizeof(float));
}

inline float scale_at(const Matrix& w, size_t i) {
  return w.d_f16 ? f16_to_float(static_cast<const uint16_t*>(w.d)[i]) : static_cast<const float*>(w.d)[i];
}

/// Eight consecutive scales from index i on; the lanes after the first `count` have any values. Reads nothing
/// outside of the array.
inline F load_scales_of(const Matrix& w, size_t i, size_t count) {
  if (i + kLanes <= w.rows * (w.cols / 32))
    return w.d_f16 ? load_scales<true>(w.d, i) : load_scales<false>(w.d, i);
  float lanes[kLanes] = {};
  for (size_t k = 0; k < count; ++k) lanes[k] = scale_at(w, i + k);
  return load(lanes);
}

/// Packs a tile of rows from `row` on: for each block its weights, 16 rows after the other, and scales
/// [blocks][rows]. The blocks are stored in the order in which multiply_tile() visits them, by class (b mod
/// 8), but are read in the file's order. Where the range of rows ends, its last row is repeated. Prefetches a
/// piece for each block.
template <WeightType type>
void pack_tile(const Matrix& w, size_t row, size_t row1, Prefetcher& ahead, uint8_t* tile, float* scales) {
  const size_t blocks = w.cols / 32;
  const uint8_t* rows[kOwnTileRows];
  size_t first[kOwnTileRows];
  for (size_t r = 0; r < kOwnTileRows; ++r) {
    const size_t from = row + r < row1 ? row + r : row1 - 1;
    first[r] = from * blocks;
    rows[r] = w.q + first[r] * block_bytes<type>;
  }
  __asm__ volatile("" : : "r"(rows) : "memory");  // or g++ 12 would hold the pointers in vectors
  size_t place[kLanes];                           // of the class's first block
  for (size_t c = 0, at = 0; c < kLanes; at += (blocks + kLanes - 1 - c) / kLanes, ++c) place[c] = at;
  for (size_t b0 = 0; b0 < blocks; b0 += kLanes) {
    const size_t count = blocks - b0 < kLanes ? blocks - b0 : kLanes;
    for (size_t c = 0; c < count; ++c) {
      ahead.fetch();
      for (size_t v = 0; v < kTileVectors; ++v)
        pack_block<type>(rows + v * kWide, b0 + c,
                         tile + ((place[c] + b0 / kLanes) * kTileVectors + v) * tile_block_bytes<type>);
    }
    for (size_t r0 = 0; r0 < kOwnTileRows; r0 += kLanes) {
      F lanes[kLanes];
      for (size_t r = 0; r < kLanes; ++r) lanes[r] = load_scales_of(w, first[r0 + r] + b0, count);
      transpose(lanes);
      for (size_t c = 0; c < count; ++c)
        store(scales + (place[c] + b0 / kLanes) * kOwnTileRows + r0, lanes[c]);
    }
  }
}

/// T activation rows times a packed tile: y[t * y_stride + row of the tile]. Prefetches a piece for each
/// block.
template <WeightType type, int T>
__attribute__((noinline, flatten)) void multiply_tile(const uint8_t* tile, const float* scales,
                                                      const Blocks8* const* rows, size_t blocks,
                                                      Prefetcher& ahead, float* y, size_t y_stride) {
  constexpr int R = kTileVectors;
  const Blocks8* x[T];
  unroll<T>([&](auto t) { x[t] = rows[t]; });
  // Every line of y is written once and is in no near cache: without this each store would wait for its line.
  unroll<T>([&](auto t) { unroll<R>([&](auto r) { __builtin_prefetch(y + t * y_stride + r * kWide, 1); }); });
  W lanes[kLanes][T][R];  // the lanes of A3
  for (int c = 0; c < kLanes; ++c) {
    W acc[T][R];
    unroll<T>([&](auto t) { unroll<R>([&](auto r) { acc[t][r] = set16(0.0f); }); });
    for (size_t g = 0; g * kLanes + static_cast<size_t>(c) < blocks; ++g) {
      WI sums[T][R];
      ahead.fetch();
      tile_isums<type, T>(tile, x, g, c, sums);
      W dw[R];
      unroll<R>([&](auto r) { dw[r] = load16(scales + r * kWide); });
      unroll<T>([&](auto t) {
        const W dx = set16(x[t][g].d[c]);
        unroll<R>([&](auto r) { acc[t][r] = acc[t][r] + to_float(sums[t][r]) * (dw[r] * dx); });
      });
      tile += R * tile_block_bytes<type>;
      scales += kOwnTileRows;
    }
    unroll<T>([&](auto t) { unroll<R>([&](auto r) { lanes[c][t][r] = acc[t][r]; }); });
  }
  for (int t = 0; t < T; ++t)
    for (int r = 0; r < R; ++r) {
      store(y + static_cast<size_t>(t) * y_stride + r * kWide,
            fold_lanes([&](auto l) { return lanes[l][t][r]; }));
    }
}

/// multiply_tile for `count` <= T rows.
template <WeightType type, int T>
inline void multiply_tile_by(int count, const uint8_t* tile, const float* scales, const Blocks8* const* rows,
                             size_t blocks, Prefetcher& ahead, float* y, size_t y_stride) {
  if constexpr (T > 1) {
    if (count < T)
      return multiply_tile_by<type, T - 1>(count, tile, scales, rows, blocks, ahead, y, y_stride);
  }
  multiply_tile<type, T>(tile, scales, rows, blocks, ahead, y, y_stride);
}

template <WeightType type>
void gemm_rows(const Matrix& w, size_t row0, size_t row1, const void* x, size_t n, float* y, size_t y_stride,
               uint8_t* scratch, size_t scratch_bytes, const uint8_t* after) {
  // The weights that come next are prefetched as evenly as possible over packing and products. Packing a tile
  // takes about as long as multiplying it by kPackRows activation rows. Where the activations are larger than
  // scratch (the second cache level), each activation row is multiplied by as many packed tiles as scratch
  // holds before the next row. Otherwise a tile stays in the first level and all activation rows are
  // multiplied by it.
  constexpr size_t kMany = 64, kTogether = 8, kPackRows = 4;
  const size_t blocks = w.cols / 32;
  const size_t groups = groups_of(w.cols);
  const size_t row_bytes = blocks * block_bytes<type>;
  const size_t scales_at = blocks * kTileVectors * tile_block_bytes<type>;
  const size_t packed_bytes = scales_at + blocks * kOwnTileRows * sizeof(float);
  const size_t calls = (n + kTileActivations - 1) / kTileActivations;
  const auto at_most = [](size_t a, size_t most) { return a < most ? a : most; };
  const bool far = n >= kMany && n * activation_bytes(w.cols) > scratch_bytes;
  const size_t together = kOwnTileRows * (far ? at_most(scratch_bytes / packed_bytes, kTogether) : 1);
  for (size_t row = row0; row < row1; row += together) {
    const size_t end = at_most(row + together, row1);
    const size_t tiles = (end - row + kOwnTileRows - 1) / kOwnTileRows;
    const uint8_t* const next = end < row1 ? w.q + end * row_bytes : after;
    const size_t next_bytes = (end < row1         ? at_most(row1 - end, together)
                               : after != nullptr ? kOwnTileRows
                                                  : 0) *
                              row_bytes;
    const size_t early = next_bytes * kPackRows / (kPackRows + n);
    Prefetcher in_packing(next, early, tiles * blocks);
    for (size_t tile = 0; tile < tiles; ++tile) {
      uint8_t* const packed = scratch + tile * packed_bytes;
      pack_tile<type>(w, row + tile * kOwnTileRows, row1, in_packing, packed,
                      reinterpret_cast<float*>(packed + scales_at));
    }
    Prefetcher in_products(next + early, next_bytes - early, tiles * calls * blocks);
    for (size_t i = 0; i < n;) {
      const int count = static_cast<int>(at_most(n - i, kTileActivations));
      const Blocks8* a[kTileActivations];
      for (int t = 0; t < count; ++t) a[t] = static_cast<const Blocks8*>(x) + (i + t) * groups;
      for (size_t tile = 0; tile < tiles; ++tile) {
        const uint8_t* const packed = scratch + tile * packed_bytes;
        const float* const scales = reinterpret_cast<const float*>(packed + scales_at);
        const size_t first = row + tile * kOwnTileRows, rows = at_most(row1 - first, kOwnTileRows);
        float* to = y + i * y_stride + (first - row0);
        if (rows == kOwnTileRows) {
          multiply_tile_by<type, kTileActivations>(count, packed, scales, a, blocks, in_products, to,
                                                   y_stride);
        } else {
          float out[kTileActivations][kOwnTileRows];
          multiply_tile_by<type, kTileActivations>(count, packed, scales, a, blocks, in_products, out[0],
                                                   kOwnTileRows);
          for (int t = 0; t < count; ++t, to += y_stride) __builtin_memcpy(to, out[t], rows * sizeof(float));
        }
      }
      i += count;
    }
  }
}

void gemm(const Matrix& w, size_t row0, size_t row1, const void* x, size_t n, float* y, size_t y_stride,
          void* scratch, size_t scratch_bytes, const uint8_t* next) {
  if (w.type == q4_0)
    gemm_rows<q4_0>(w, row0, row1, x, n, y, y_stride, static_cast<uint8_t*>(scratch), scratch_bytes, next);
  else
    gemm_rows<q8_0>(w, row0, row1, x, n, y, y_stride, static_cast<uint8_t*>(scratch), scratch_bytes, next);
}

template <WeightType type>
__attribute__((noinline, flatten)) size_t tile_rounds(size_t rounds) {
  constexpr int T = kTileActivations, R = kTileVectors;
  alignas(64) uint8_t tile[R * tile_block_bytes<type>] = {};
  Blocks8 groups[T] = {};
  const Blocks8* x[T];
  unroll<T>([&](auto t) { x[t] = groups + t; });
  for (size_t i = 0; i < rounds; ++i) {
    WI sums[T][R];
    tile_isums<type, T>(tile, x, 0, static_cast<int>(i % kLanes), sums);
    __asm__ volatile(""
                     :
                     : "r"(&sums), "r"(&tile), "r"(&groups)
                     : "memory");  // so that the compiler computes every round
  }
  return rounds * size_t{T} * R * kWide * 32;
}

size_t multiply_add_peak(WeightType type, size_t rounds) {
  return type == q4_0 ? tile_rounds<q4_0>(rounds) : tile_rounds<q8_0>(rounds);
}

void dequantize_row(const Matrix& w, size_t row, float scale, float* out) {
  const size_t blocks = w.cols / 32;
  for (size_t b = row * blocks; b < (row + 1) * blocks; ++b, out += 32) {
    int8_t levels[32];
    if (w.type == q4_0) {
      for (int i = 0; i < 16; ++i) levels[i] = static_cast<int8_t>((w.q[b * 16 + i] & 15) - 8);
      for (int i = 0; i < 16; ++i) levels[i + 16] = static_cast<int8_t>((w.q[b * 16 + i] >> 4) - 8);
    } else {
      __builtin_memcpy(levels, w.q + b * 32, 32);
    }
    const float d = scale_at(w, b);
    for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(levels[i]) * d;
    if (scale != 0)
      for (int i = 0; i < 32; ++i) out[i] = out[i] * scale;
  }
}
