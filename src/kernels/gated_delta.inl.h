// A7: the causal convolution, the L2 norm of heads, the gates of the delta rule and its recurrence. Lanes are
// channels, heads or values.

constexpr size_t kConvChannels = 64;  // channels whose taps are held transposed at a time
constexpr size_t kConvTaps = 4;

/// Adds N taps from tap t0 on to the sums of `width` channels (whole vectors) from c0 on, at every position;
/// after the last taps, silu.
template <int N>
inline void convolve_taps(const CausalConv& c, size_t c0, size_t width, size_t t0) {
  float taps[N][kConvChannels] = {};
  for (size_t i = 0; i < width && c0 + i < c.channels; ++i)
    for (int t = 0; t < N; ++t) taps[t][i] = c.taps[(c0 + i) * c.n_taps + t0 + t];
  const size_t past = c.n_taps - 1;
  const bool last = t0 + N == c.n_taps;
  for (size_t p = 0; p < c.count; ++p) {
    const float* in[N];  // the input that each tap meets
    for (int t = 0; t < N; ++t) {
      const size_t at = p + t0 + t;
      in[t] = (at < past ? c.history + at * c.stride : c.x + (at - past) * c.stride) + c0;
    }
    float* y = c.y + p * c.stride + c0;
    for (size_t i = 0; i < width; i += kLanes) {
      F sum = t0 == 0 ? set1(0.0f) : load(y + i);
      unroll<N>([&](auto t) { sum = sum + load(taps[t] + i) * load(in[t] + i); });
      store(y + i, last ? silu(sum) : sum);
    }
  }
}

void causal_conv(const CausalConv& c) {
  for (size_t c0 = 0; c0 < c.channels; c0 += kConvChannels) {
    const size_t rest = round_up<size_t>(c.channels - c0, kLanes);
    const size_t width = rest < kConvChannels ? rest : kConvChannels;
    for (size_t t0 = 0; t0 < c.n_taps; t0 += kConvTaps) switch (c.n_taps - t0) {
        case 1: convolve_taps<1>(c, c0, width, t0); break;
        case 2: convolve_taps<2>(c, c0, width, t0); break;
        case 3: convolve_taps<3>(c, c0, width, t0); break;
        default: convolve_taps<4>(c, c0, width, t0);
      }
  }
}

void l2_norm(float* x, float scale, size_t n) {
  F sum = set1(0.0f);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = sum + load(x + i) * load(x + i);
  if (i < n) sum = sum + load_part(x + i, n - i) * load_part(x + i, n - i);
  const float inv = 1.0f / __builtin_sqrtf(fold8(sum) + 1e-6f);
  zip(x, x, x, n,
      [inv, scale](auto a, auto) { return (a * set<decltype(a)>(inv)) * set<decltype(a)>(scale); });
}

/// log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)). log1p is in float64 (A10), so a lane at a time.
inline F softplus(F x) {
  float lanes[kLanes];
  store(lanes, exp(negate(abs(x))));
  for (float& lane : lanes) lane = math::log1p(lane);
  const F positive = select(gt(x, set1(0.0f)), x, select(is_nan(x), x, set1(0.0f)));
  return positive + load(lanes);
}

void delta_gates(const DeltaGates& g) {
  zip(g.beta, g.beta, g.beta, g.heads, [](auto b, auto) { return sigmoid(b); });
  const auto decay = [](F a, F A_log, F dt_bias) { return exp(negate(exp(A_log)) * softplus(a + dt_bias)); };
  size_t i = 0;
  for (; i + kLanes <= g.heads; i += kLanes)
    store(g.decay + i, decay(load(g.decay + i), load(g.A_log + i), load(g.dt_bias + i)));
  if (const size_t n = g.heads - i; n > 0)
    store_part(g.decay + i,
               decay(load_part(g.decay + i, n), load_part(g.A_log + i, n), load_part(g.dt_bias + i, n)), n);
}

/// A slice of N vectors. Each position leaves the next one's t = S * g in memory, so that it reads and writes
/// the state once.
template <int N>
inline void delta_slice(const DeltaRule& r) {
  constexpr size_t row = N * kLanes;
  const size_t dk = r.dk, part = r.width % kLanes;  // part: values of the last vector; 0: all
  float* const state = r.state;
  F kv[N];
  unroll<N>([&](auto v) { kv[v] = set1(0.0f); });
  const F g = set1(r.g[0]);
  for (size_t i = 0; i < dk; ++i) {
    float* s = state + i * row;
    const F k = set1(r.k[i]);
    unroll<N>([&](auto v) {
      const F t = load(s + v * kLanes) * g;
      store(s + v * kLanes, t);
      kv[v] = kv[v] + t * k;
    });
  }
  for (size_t p = 0; p < r.count; ++p) {
    const float *q = r.q + p * r.stride, *k = r.k + p * r.stride;
    F delta[N], o[N];
    unroll<N>([&](auto v) {
      const float* from = r.v + p * r.stride + v * kLanes;
      const F value = v == N - 1 && part != 0 ? load_part(from, part) : load(from);
      delta[v] = set1(r.beta[p * r.gate_stride]) * (value - kv[v]);
      o[v] = kv[v] = set1(0.0f);
    });
    if (p + 1 < r.count) {
      const float* next = k + r.stride;
      const F decay = set1(r.g[(p + 1) * r.gate_stride]);
      for (size_t i = 0; i < dk; ++i) {
        float* s = state + i * row;
        const F ki = set1(k[i]), qi = set1(q[i]), ni = set1(next[i]);
        unroll<N>([&](auto v) {
          const F updated = load(s + v * kLanes) + ki * delta[v];
          o[v] = o[v] + updated * qi;
          const F t = updated * decay;
          kv[v] = kv[v] + t * ni;
          store(s + v * kLanes, t);
        });
      }
    } else {
      for (size_t i = 0; i < dk; ++i) {
        float* s = state + i * row;
        const F ki = set1(k[i]), qi = set1(q[i]);
        unroll<N>([&](auto v) {
          const F updated = load(s + v * kLanes) + ki * delta[v];
          o[v] = o[v] + updated * qi;
          store(s + v * kLanes, updated);
        });
      }
    }
    float* out = r.o + p * r.o_stride;
    unroll<N>([&](auto v) {
      if (v == N - 1 && part != 0)
        store_part(out + v * kLanes, o[v], part);
      else
        store(out + v * kLanes, o[v]);
    });
  }
}

void delta_rule(const DeltaRule& r) {
  static_assert(kDeltaSlice == 4 * kLanes);
  switch ((r.width + kLanes - 1) / kLanes) {
    case 1: return delta_slice<1>(r);
    case 2: return delta_slice<2>(r);
    case 3: return delta_slice<3>(r);
    default: return delta_slice<4>(r);
  }
}
