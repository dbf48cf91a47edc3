// A3: quantized activation rows, GEMV on the mapped rows, GEMM on packed tiles.

/// out: d[nb8], sum8[nb8], q[nb8*32], extra; nb8 = blocks rounded up to 8, the padding zero (d = 0: it adds +0).
inline size_t padded_blocks(size_t cols) { return (cols / 32 + 7) / 8 * 8; }

size_t activation_bytes(size_t cols) {
  const size_t nb = padded_blocks(cols);
  return nb * 8 + nb * 32 * (1 + kExtraBytes);  // a multiple of 64: nb is one of 8
}

inline Activation activation(const void* row, size_t cols) {
  const uint8_t* p = static_cast<const uint8_t*>(row);
  const size_t nb = padded_blocks(cols);
  Activation a;
  a.d = reinterpret_cast<const float*>(p);
  a.sum8 = reinterpret_cast<const int32_t*>(p + nb * 4);
  a.q = reinterpret_cast<const int8_t*>(p + nb * 8);
  a.padded = nb * 32;
  a.extra = p + nb * 8 + a.padded;
  return a;
}

inline uint32_t float_bits(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}

/// One block of 32 by the page's rule; returns d and writes the quants and eight times their sum.
inline float quantize_block(const float* x, int8_t* q, int32_t* sum8) {
  uint32_t largest = 0;
  for (int i = 0; i < 32; ++i) {
    const uint32_t magnitude = float_bits(x[i]) & 0x7fffffffu;
    if (magnitude > largest) largest = magnitude;
  }
  float amax;
  __builtin_memcpy(&amax, &largest, 4);
  if (largest >= 0x7f800000u || amax < 1e-30f) {
    __builtin_memset(q, 0, 32);
    *sum8 = 0;
    return largest >= 0x7f800000u ? __builtin_nanf("") : 0.0f;
  }
  const F factor = set1(127.0f / amax);
  int32_t levels[32];
  for (int i = 0; i < 32; i += kLanes) {
    const F v = load(x + i) * factor;
    store(levels + i, to_int(v + copysign(set1(0.5f), v)));  // |v| <= 127.00001, so trunc is at most 127
  }
  int32_t sum = 0;
  for (int i = 0; i < 32; ++i) {
    q[i] = static_cast<int8_t>(levels[i]);
    sum += levels[i];
  }
  *sum8 = 8 * sum;
  return amax / 127.0f;
}

void quantize_activation(const float* x, size_t cols, void* out) {
  uint8_t* p = static_cast<uint8_t*>(out);
  const size_t blocks = cols / 32;
  const size_t nb = padded_blocks(cols);
  float* d = reinterpret_cast<float*>(p);
  int32_t* sum8 = reinterpret_cast<int32_t*>(p + nb * 4);
  int8_t* q = reinterpret_cast<int8_t*>(p + nb * 8);
  for (size_t b = 0; b < blocks; ++b) d[b] = quantize_block(x + b * 32, q + b * 32, sum8 + b);
  for (size_t b = blocks; b < nb; ++b) {
    d[b] = 0;
    sum8[b] = 0;
  }
  __builtin_memset(q + blocks * 32, 0, (nb - blocks) * 32);
  pack_extra(q, nb * 32, p + nb * 8 + nb * 32);
}

/// Eight scales from index i on.
template <bool f16>
inline F load_scales(const void* d, size_t i) {
  if constexpr (f16)
    return load_f16(static_cast<const uint16_t*>(d) + i);
  else
    return load(static_cast<const float*>(d) + i);
}

/// The n < 8 scales from index i of `count` on, the other lanes 0. Reads a whole vector where the array is long enough.
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

/// tail = blocks mod 8.
template <bool q4, bool f16, int tail>
void gemv_rows(const Matrix& w, size_t row0, size_t row1, const Activation& x, float* y) {
  constexpr size_t block_bytes = q4 ? 16 : 32;
  const size_t blocks = w.cols / 32;
  const size_t whole = blocks - tail;
  for (size_t r = row0; r < row1; ++r) {
    const uint8_t* row = w.q + r * blocks * block_bytes;
    F acc = set1(0.0f);
    for (size_t b = 0; b < whole; b += 8) {
      const F scales = load_scales<f16>(w.d, r * blocks + b) * load(x.d + b);
      acc = acc + to_float(isums<q4, 8>(row + b * block_bytes, x, b)) * scales;
    }
    if constexpr (tail > 0) {
      const F scales = load_scales_tail<f16, tail>(w.d, r * blocks + whole, w.rows * blocks) * load(x.d + whole);
      acc = acc + to_float(isums<q4, tail>(row + whole * block_bytes, x, whole)) * scales;  // +0 in the other lanes
    }
    y[r] = fold8(acc);
  }
}

template <bool q4, bool f16>
void gemv_any_tail(const Matrix& w, size_t row0, size_t row1, const Activation& x, float* y) {
  switch (w.cols / 32 % 8) {
    case 0: return gemv_rows<q4, f16, 0>(w, row0, row1, x, y);
    case 1: return gemv_rows<q4, f16, 1>(w, row0, row1, x, y);
    case 2: return gemv_rows<q4, f16, 2>(w, row0, row1, x, y);
    case 3: return gemv_rows<q4, f16, 3>(w, row0, row1, x, y);
    case 4: return gemv_rows<q4, f16, 4>(w, row0, row1, x, y);
    case 5: return gemv_rows<q4, f16, 5>(w, row0, row1, x, y);
    case 6: return gemv_rows<q4, f16, 6>(w, row0, row1, x, y);
    default: return gemv_rows<q4, f16, 7>(w, row0, row1, x, y);
  }
}

void gemv(const Matrix& w, size_t row0, size_t row1, const void* x, float* y) {
  const Activation a = activation(x, w.cols);
  if (w.q4)
    w.d_f16 ? gemv_any_tail<true, true>(w, row0, row1, a, y) : gemv_any_tail<true, false>(w, row0, row1, a, y);
  else
    w.d_f16 ? gemv_any_tail<false, true>(w, row0, row1, a, y) : gemv_any_tail<false, false>(w, row0, row1, a, y);
}

size_t gemm_scratch(size_t cols) { return cols / 32 * (tile_block_bytes<false> + kTileRows * sizeof(float)); }

inline float scale_at(const Matrix& w, size_t i) {
  return w.d_f16 ? f16_to_float(static_cast<const uint16_t*>(w.d)[i]) : static_cast<const float*>(w.d)[i];
}

/// Packs rows row .. row+15 (the last row repeated where the range ends): tile blocks, then scales [blocks][16].
template <bool q4>
void pack_tile(const Matrix& w, size_t row, size_t row1, uint8_t* tile, float* scales) {
  const size_t blocks = w.cols / 32;
  const uint8_t* rows[kTileRows];
  for (size_t r = 0; r < kTileRows; ++r) {
    const size_t from = row + r < row1 ? row + r : row1 - 1;
    rows[r] = w.q + from * blocks * (q4 ? 16 : 32);
    for (size_t b = 0; b < blocks; ++b) scales[b * kTileRows + r] = scale_at(w, from * blocks + b);
  }
  for (size_t b = 0; b < blocks; ++b) pack_block<q4>(rows, b, tile + b * tile_block_bytes<q4>);
}

/// T activation rows against a packed tile: y[t][0..15].
template <bool q4, int T>
void multiply_tile(const uint8_t* tile, const float* scales, const Activation* x, size_t blocks, float (*y)[kTileRows]) {
  F acc[T][2][kLanes];  // [class b mod 8]: the lanes of A3
  for (int t = 0; t < T; ++t)
    for (int h = 0; h < 2; ++h)
      for (int c = 0; c < kLanes; ++c) acc[t][h][c] = set1(0.0f);
  for (size_t b = 0; b < blocks; ++b) {
    I sums[T][2];
    tile_isums<q4, T>(tile + b * tile_block_bytes<q4>, x, b, sums);
    const F d0 = load(scales + b * kTileRows);
    const F d1 = load(scales + b * kTileRows + 8);
    unroll<T>([&](auto t) {
      const F dx = set1(x[t].d[b]);
      F* a0 = &acc[t][0][b % 8];
      F* a1 = &acc[t][1][b % 8];
      *a0 = *a0 + to_float(sums[t][0]) * (d0 * dx);
      *a1 = *a1 + to_float(sums[t][1]) * (d1 * dx);
    });
  }
  for (int t = 0; t < T; ++t)
    for (int h = 0; h < 2; ++h) {
      const F* a = acc[t][h];
      store(y[t] + 8 * h, ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])));
    }
}

template <bool q4>
void gemm_rows(const Matrix& w, size_t row0, size_t row1, const void* x, size_t n, float* y, size_t y_stride, uint8_t* scratch) {
  const size_t blocks = w.cols / 32;
  const size_t stride = activation_bytes(w.cols);
  float* scales = reinterpret_cast<float*>(scratch + blocks * tile_block_bytes<q4>);
  for (size_t row = row0; row < row1; row += kTileRows) {
    pack_tile<q4>(w, row, row1, scratch, scales);
    const size_t rows = row1 - row < kTileRows ? row1 - row : kTileRows;
    for (size_t i = 0; i < n;) {
      const int count = n - i < 4 ? static_cast<int>(n - i) : 4;
      Activation a[4];
      for (int t = 0; t < count; ++t) a[t] = activation(static_cast<const uint8_t*>(x) + (i + t) * stride, w.cols);
      float out[4][kTileRows];
      switch (count) {
        case 4: multiply_tile<q4, 4>(scratch, scales, a, blocks, out); break;
        case 3: multiply_tile<q4, 3>(scratch, scales, a, blocks, out); break;
        case 2: multiply_tile<q4, 2>(scratch, scales, a, blocks, out); break;
        default: multiply_tile<q4, 1>(scratch, scales, a, blocks, out); break;
      }
      for (int t = 0; t < count; ++t) __builtin_memcpy(y + (i + t) * y_stride + row, out[t], rows * sizeof(float));
      i += count;
    }
  }
}

void gemm(const Matrix& w, size_t row0, size_t row1, const void* x, size_t n, float* y, size_t y_stride, void* scratch) {
  if (w.q4)
    gemm_rows<true>(w, row0, row1, x, n, y, y_stride, static_cast<uint8_t*>(scratch));
  else
    gemm_rows<false>(w, row0, row1, x, n, y, y_stride, static_cast<uint8_t*>(scratch));
}

void dequantize_row(const Matrix& w, size_t row, float scale, float* out) {
  const size_t blocks = w.cols / 32;
  for (size_t b = row * blocks; b < (row + 1) * blocks; ++b, out += 32) {
    int8_t levels[32];
    if (w.q4) {
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
