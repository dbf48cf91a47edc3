// Prints a checksum of what each kernel gives, the same on every CPU: `make check-foreign` compares this
// CPU's with those of others. All instruction sets that are here must agree. Needs neither exceptions nor
// threads, so that it also runs as WASM.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/kernels.h"

namespace krafla {

#ifdef __wasm__  // src/kernels/kernels.cpp chooses among CPUs; here the module itself says what there is
extern const Kernels kernels_scalar;
extern const Kernels kernels_simd128;
#endif

namespace {

std::vector<const Kernels*> tables() {
#ifdef __wasm__
  return {&kernels_scalar, &kernels_simd128};
#else
  std::vector<const Kernels*> found;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name)
    if (const Kernels* kernels = find_kernels(*name)) found.push_back(kernels);
  return found;
#endif
}

/// Numbers that depend on no library.
class Random {
 public:
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  /// From -scale to scale; now and then a value that is 0, denormal or not finite.
  float number(float scale, bool nasty = false) {
    static const float odd[] = {
        0.0f, -0.0f, 1e-40f, -3e-42f, __builtin_inff(), -__builtin_inff(), __builtin_nanf(""), 3e38f};
    const std::uint32_t b = bits();
    if (nasty && b % 128 == 0) return odd[bits() % 8];
    return scale * (static_cast<float>(b % 0x1000000u) * 0x1p-23f - 1.0f);
  }
  std::vector<float> numbers(std::size_t n, float scale = 1, bool nasty = false) {
    std::vector<float> x(n);
    for (float& v : x) v = number(scale, nasty);
    return x;
  }
  std::vector<std::uint8_t> bytes(std::size_t n) {
    std::vector<std::uint8_t> x(n);
    for (std::uint8_t& v : x) v = static_cast<std::uint8_t>(bits());
    return x;
  }

 private:
  std::uint64_t state_ = 1;
};

/// FNV-1a; any NaN counts as any other.
class Sum {
 public:
  void add(const std::vector<float>& x) {
    for (const float v : x) {
      std::uint32_t bits = 0x7fc00000u;
      if (v == v) std::memcpy(&bits, &v, 4);
      for (int i = 0; i < 4; ++i) byte(static_cast<std::uint8_t>(bits >> (8 * i)));
    }
  }
  void add_f16(const std::vector<std::uint16_t>& x) {
    for (const std::uint16_t v : x) {
      const std::uint16_t h = (v & 0x7fffu) > 0x7c00u ? 0x7e00u : v;
      byte(static_cast<std::uint8_t>(h));
      byte(static_cast<std::uint8_t>(h >> 8));
    }
  }
  template <class Byte>
  void add_bytes(const std::vector<Byte>& x) {
    for (const Byte v : x) byte(static_cast<std::uint8_t>(v));
  }
  std::uint64_t value() const { return value_; }

 private:
  void byte(std::uint8_t b) { value_ = (value_ ^ b) * 1099511628211u; }
  std::uint64_t value_ = 14695981039346656037u;
};

/// 64-byte aligned scratch memory.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes) : memory_(bytes + 64) {}
  std::size_t size() const { return memory_.size() - 64; }
  char* data() { return memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64; }

 private:
  std::vector<char> memory_;
};

/// Scales of `count` blocks as f32 or f16; bit patterns of f16 reach every kind of number there.
std::vector<std::uint8_t> scales(Random& random, std::size_t count, bool f16) {
  if (f16) return random.bytes(count * 2);
  const std::vector<float> d = random.numbers(count, 0.01f, true);
  std::vector<std::uint8_t> bytes(count * 4);
  std::memcpy(bytes.data(), d.data(), bytes.size());
  return bytes;
}

void sum_matrices(const Kernels& k, WeightType type, Sum& sum) {
  Random random;
  for (const std::size_t cols : {32u, 96u, 256u, 608u})
    for (const bool f16 : {false, true})
      for (const bool nasty : {false, true}) {
        const std::size_t rows = 37, n = 7, stride = k.activation_bytes(cols);
        const std::vector<std::uint8_t> q = random.bytes(rows * cols / (type == WeightType::q4_0 ? 2 : 1)),
                                        d = scales(random, rows * cols / 32, f16);
        const Matrix w{type, rows, cols, q.data(), d.data(), f16};
        Aligned acts(stride * n), scratch(k.gemm_scratch(cols));
        std::vector<float> y(rows), ys(n * rows), row(cols);
        for (std::size_t t = 0; t < n; ++t) {
          k.quantize_activation(random.numbers(cols, 3, nasty).data(), cols, acts.data() + t * stride);
          k.gemv(w, 0, rows, acts.data() + t * stride, y.data(), nullptr);
          sum.add(y);
        }
        k.gemm(w, 0, rows, acts.data(), n, ys.data(), rows, scratch.data(), scratch.size(), nullptr);
        sum.add(ys);
        k.dequantize_row(w, rows - 1, 0.3f, row.data());
        sum.add(row);
      }
}
void sum_q8_0(const Kernels& k, Sum& sum) { sum_matrices(k, WeightType::q8_0, sum); }
void sum_q4_0(const Kernels& k, Sum& sum) { sum_matrices(k, WeightType::q4_0, sum); }

void sum_quantizing(const Kernels& k, Sum& sum) {
  Random random;
  for (const std::size_t blocks : {1u, 8u, 21u})
    for (const float scale : {1.0f, 1e-6f, 1e-38f, 1e30f}) {
      const std::vector<float> x = random.numbers(blocks * 32, scale), w = random.numbers(blocks * 32, 0.5f);
      std::vector<float> d(blocks), weights(w);
      for (float& v : weights) v = v * v;
      std::vector<std::uint8_t> q8(blocks * 32), q4(blocks * 16);
      const auto add_q4 = [&] {
        sum.add(d);
        sum.add_bytes(q4);
      };
      for (const bool f16 : {false, true}) {
        if (f16 && scale > 1e3f) continue;  // no such scale in f16
        k.quantize_q8(x.data(), blocks, f16, q8.data(), d.data());
        sum.add(d);
        sum.add_bytes(q8);
      }
      k.quantize_q4_search(x.data(), nullptr, blocks, q4.data(), d.data());
      add_q4();
      k.quantize_q4_search(x.data(), weights.data(), blocks, q4.data(), d.data());
      add_q4();
      k.quantize_q4_round(x.data(), blocks, q4.data(), d.data());
      add_q4();
    }
}

void sum_elementwise(const Kernels& k, Sum& sum) {
  Random random;
  for (const std::size_t n : {1u, 8u, 301u}) {
    const std::vector<float> x = random.numbers(n, 100, true), y = random.numbers(n), c = random.numbers(n),
                             s = random.numbers(n);
    const auto run = [&](auto function) {
      std::vector<float> to = x;
      function(to.data());
      sum.add(to);
    };
    run([&](float* to) { k.add(to, y.data(), n); });
    run([&](float* to) { k.silu_mul(to, to, y.data(), n); });
    run([&](float* to) { k.gelu_mul(to, to, y.data(), n); });
    run([&](float* to) { k.sigmoid_mul(to, x.data(), n); });
    run([&](float* to) { k.softcap(to, 30, n); });
    run([&](float* to) { k.divide(to, 7, n); });
    run([&](float* to) { k.rope(to, c.data(), s.data(), n / 2); });
    run([&](float* to) { k.rms_norm(y.data(), c.data(), 1e-5f, n, to); });
    run([&](float* to) {
      std::memcpy(to, y.data(), n * sizeof(float));
      k.l2_norm(to, 0.3f, n);
    });
    std::vector<std::uint16_t> half(n);
    k.to_f16(x.data(), n, half.data());
    sum.add_f16(half);
  }
}

void sum_attention(const Kernels& k, Sum& sum) {
  Random random;
  for (const int dim : {6, 64, 72})
    for (const KvType type : {KvType::f16, KvType::f32, KvType::q8_0})
      for (const float cap : {0.0f, 5.0f}) {
        constexpr std::size_t kMost = 5;
        const auto size = static_cast<std::size_t>(dim), stride = (size + 7) / 8 * 8,
                   blocks = (size + 31) / 32;
        const std::vector<float> q = random.numbers(kMost * size, 3), x = random.numbers(size * kPage);
        std::vector<std::uint16_t> half(size * kPage), d(kPage * blocks);
        std::vector<std::int8_t> page(size * kPage + 2 * d.size());
        k.to_f16(x.data(), x.size(), half.data());
        for (std::size_t j = 0; j < kPage; ++j)
          k.quantize_kv(x.data() + j * size, size, page.data() + j * size, d.data() + j * blocks);
        std::memcpy(page.data() + size * kPage, d.data(), 2 * d.size());
        sum.add_bytes(page);
        const void* const kinds[] = {half.data(), x.data(), page.data()};
        const void* elements = kinds[static_cast<int>(type)];  // as keys and as values
        const int first[kMost] = {0, 0, 4, 5, 63}, last[kMost] = {64, 64, 17, 6, 64};
        const float* rows[kMost];
        for (std::size_t i = 0; i < kMost; ++i) rows[i] = q.data() + i * size;
        for (const std::size_t nq : {kMost, std::size_t{3}}) {  // few queries go another way
          Aligned scratch(attend_scratch(size, nq) * sizeof(float));
          std::vector<float> m(nq), l(nq), o(nq * stride);
          k.attend_page({rows, first, last, static_cast<int>(nq), dim, elements, elements, nullptr, type,
                         0.3f, cap, reinterpret_cast<float*>(scratch.data()), m.data(), l.data(), o.data(),
                         stride});
          for (std::size_t i = 0; i < nq; ++i)
            for (std::size_t at = size; at < stride; ++at) o[i * stride + at] = 0;  // the padding is anything
          float top = m[0], total = l[0];
          k.attend_merge(
              {1, size, &top, &total, o.data(), m.data() + 1, l.data() + 1, o.data() + stride, stride});
          sum.add({top, total});
          sum.add(m);
          sum.add(l);
          sum.add(o);
        }
      }
}

void sum_linear(const Kernels& k, Sum& sum) {
  Random random;
  for (const std::size_t taps : {1u, 4u, 5u}) {
    const std::size_t channels = 75, stride = 80, count = 6;
    const std::vector<float> w = random.numbers(channels * taps),
                             x = random.numbers((taps - 1 + count) * stride, 2);
    std::vector<float> y(count * stride);
    k.causal_conv(
        {channels, taps, count, w.data(), x.data(), x.data() + (taps - 1) * stride, y.data(), stride});
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t c = channels; c < stride; ++c) y[p * stride + c] = 0;  // the padding is anything
    sum.add(y);
  }
  for (const std::size_t heads : {4u, 16u, 301u}) {
    std::vector<float> beta = random.numbers(heads, 100, true), decay = random.numbers(heads, 20, true);
    const std::vector<float> A_log = random.numbers(heads, 5, true), dt_bias = random.numbers(heads, 5, true);
    k.delta_gates({heads, beta.data(), decay.data(), A_log.data(), dt_bias.data()});
    sum.add(beta);
    sum.add(decay);
  }
  for (const std::size_t width : {5u, 16u, 32u}) {
    const std::size_t count = 5, dk = 24, stride = 2 * dk + width, padded = (width + 7) / 8 * 8;
    const std::vector<float> qkv = random.numbers(count * stride), gates = random.numbers(2 * count);
    std::vector<float> state = random.numbers(dk * padded), o(count * width);
    k.delta_rule({count, dk, width, qkv.data(), qkv.data() + dk, qkv.data() + 2 * dk, stride, gates.data(),
                  gates.data() + count, 1, state.data(), o.data(), width});
    sum.add(o);
    for (std::size_t i = 0; i < dk; ++i)
      for (std::size_t j = width; j < padded; ++j) state[i * padded + j] = 0;
    sum.add(state);
  }
}

int main_of_sums() {
  constexpr struct {
    const char* name;
    void (*run)(const Kernels&, Sum&);
  } kParts[] = {{"q8_0", sum_q8_0},
                {"q4_0", sum_q4_0},
                {"quantizing", sum_quantizing},
                {"elementwise", sum_elementwise},
                {"attention", sum_attention},
                {"linear", sum_linear}};
  int failures = 0;
  for (const auto& part : kParts) {
    std::uint64_t want = 0;
    for (const Kernels* kernels : tables()) {
      Sum sum;
      part.run(*kernels, sum);
      if (std::strcmp(kernels->name, "scalar") == 0) want = sum.value();
      if (sum.value() != want) {
        std::fprintf(stderr, "%s: %s gives %016llx, scalar %016llx\n", part.name, kernels->name,
                     static_cast<unsigned long long>(sum.value()), static_cast<unsigned long long>(want));
        ++failures;
      }
    }
    std::printf("%s %016llx\n", part.name, static_cast<unsigned long long>(want));
  }
  for (const Kernels* kernels : tables())
    std::fprintf(stderr, "agrees: %s\n", kernels->name);  // the fastest last
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace krafla

int main() { return krafla::main_of_sums(); }
