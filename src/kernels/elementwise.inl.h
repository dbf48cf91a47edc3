// A2, A4 and A5: sums, norms, activations, rotation. The last elements of any length are computed in a padded
// vector, so they get the same bits as the others.

/// The sum of eight lanes in the order of A2, where lane(l) is a vector with lane l of several sums.
template <class Lane>
inline __attribute__((always_inline)) auto fold_lanes(Lane lane) {
  return ((lane(Index<0>{}) + lane(Index<4>{})) + (lane(Index<2>{}) + lane(Index<6>{}))) +
         ((lane(Index<1>{}) + lane(Index<5>{})) + (lane(Index<3>{}) + lane(Index<7>{})));
}

/// n < 8 floats, the other lanes 0.
inline F load_part(const float* x, size_t n) {
  float lanes[kLanes] = {};
  __builtin_memcpy(lanes, x, n * sizeof(float));
  return load(lanes);
}

inline void store_part(float* x, F value, size_t n) {
  float lanes[kLanes];
  store(lanes, value);
  __builtin_memcpy(x, lanes, n * sizeof(float));
}

/// out[i] = f(x[i], y[i]) over any length; out may be x. f takes vectors of 16 and of 8.
template <class Function>
inline void zip(float* out, const float* x, const float* y, size_t n, Function f) {
  size_t i = 0;
  for (; i + kWide <= n; i += kWide) store(out + i, f(load16(x + i), load16(y + i)));
  if (i + kLanes <= n) {
    store(out + i, f(load(x + i), load(y + i)));
    i += kLanes;
  }
  if (i < n) store_part(out + i, f(load_part(x + i, n - i), load_part(y + i, n - i)), n - i);
}

template <class V>
inline V sigmoid(V x) {
  return set<V>(1.0f) / (set<V>(1.0f) + exp(negate(x)));
}
template <class V>
inline V silu(V x) {
  return x * sigmoid(x);
}
template <class V>
inline V gelu(V x) {
  const V inner = set<V>(0x1.988454p-1f) * (x + set<V>(0x1.6e4e26p-5f) * ((x * x) * x));
  return (set<V>(0.5f) * x) * (set<V>(1.0f) + tanh(inner));
}
template <class V>
inline V soft_cap(V x, float cap) {
  return set<V>(cap) * tanh(x / set<V>(cap));
}

void add(float* x, const float* y, size_t n) {
  zip(x, x, y, n, [](auto a, auto b) { return a + b; });
}
void silu_mul(float* out, const float* gate, const float* up, size_t n) {
  zip(out, gate, up, n, [](auto g, auto u) { return silu(g) * u; });
}
void gelu_mul(float* out, const float* gate, const float* up, size_t n) {
  zip(out, gate, up, n, [](auto g, auto u) { return gelu(g) * u; });
}
void sigmoid_mul(float* o, const float* gate, size_t n) {
  zip(o, o, gate, n, [](auto a, auto g) { return a * sigmoid(g); });
}
void softcap(float* x, float cap, size_t n) {
  zip(x, x, x, n, [cap](auto s, auto) { return soft_cap(s, cap); });
}
void divide(float* x, float by, size_t n) {
  zip(x, x, x, n, [by](auto a, auto) { return a / set<decltype(a)>(by); });
}

void rms_norm(const float* x, const float* w, float eps, size_t n, float* y) {
  F sum = set1(0.0f);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = sum + load(x + i) * load(x + i);
  if (i < n) sum = sum + load_part(x + i, n - i) * load_part(x + i, n - i);
  const float inv = 1.0f / __builtin_sqrtf(fold8(sum) / static_cast<float>(n) + eps);
  for (i = 0; i + kLanes <= n; i += kLanes) store(y + i, (load(x + i) * set1(inv)) * load(w + i));
  if (i < n) store_part(y + i, (load_part(x + i, n - i) * set1(inv)) * load_part(w + i, n - i), n - i);
}

void rope(float* x, const float* cos, const float* sin, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    const float x0 = x[2 * i];
    const float x1 = x[2 * i + 1];
    x[2 * i] = x0 * cos[i] - x1 * sin[i];
    x[2 * i + 1] = x0 * sin[i] + x1 * cos[i];
  }
}

void to_f16(const float* x, size_t n, uint16_t* out) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_f16(out + i, load(x + i));
  if (i < n) {
    uint16_t lanes[kLanes];
    store_f16(lanes, load_part(x + i, n - i));
    __builtin_memcpy(out + i, lanes, (n - i) * sizeof(uint16_t));
  }
}
