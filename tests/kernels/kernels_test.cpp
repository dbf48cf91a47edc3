// Every instruction set against a naive reference of docs/arithmetic.md, bit for bit.
#include "kernels/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/float16.h"
#include "base/math.h"

namespace krafla {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same_bits(got[i], want[i]))
        << what << " [" << i << "]: got " << got[i] << ", want " << want[i];
}

float fold8(const float* a) { return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])); }

/// A 64-byte aligned buffer with canaries around it.
class Aligned {
 public:
  explicit Aligned(std::size_t bytes) : bytes_(bytes), storage_(bytes + 192, 0xa5) {}
  void* data() { return storage_.data() + offset(); }
  std::size_t size() const { return bytes_; }
  bool intact() const {
    for (std::size_t i = 0; i < offset(); ++i)
      if (storage_[i] != 0xa5) return false;
    for (std::size_t i = offset() + bytes_; i < storage_.size(); ++i)
      if (storage_[i] != 0xa5) return false;
    return true;
  }

 private:
  std::size_t offset() const {
    return 64 + (64 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 64) % 64;
  }
  std::size_t bytes_;
  std::vector<std::uint8_t> storage_;
};

std::vector<float> random_floats(std::size_t n, std::mt19937& rng, float sigma = 1) {
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> x(n);
  for (float& v : x) v = normal(rng);
  return x;
}

/// A matrix with random quants over the whole range and adversarial scales; owns its bytes; the quants have
/// an odd start, the scales one that is aligned to a float and no more.
struct TestMatrix {
  Matrix view;
  std::vector<std::uint8_t> q, d;

  TestMatrix(std::size_t rows, std::size_t cols, WeightType type, bool f16, std::mt19937& rng,
             bool nasty = false)
      : q(rows * cols / (type == WeightType::q4_0 ? 2 : 1) + 1), d(rows * cols / 32 * (f16 ? 2 : 4) + 4) {
    for (auto& byte : q) byte = static_cast<std::uint8_t>(rng());
    std::normal_distribution<float> normal(0, 0.01f);
    for (std::size_t i = 0; i < rows * cols / 32; ++i) {
      float scale = normal(rng);
      if (nasty && rng() % 16 == 0) {
        const float odd[] = {0, -0.0f, 1e-40f, kInf, -kInf, kNaN, 65504, 6e-8f};
        scale = odd[rng() % 8];
      }
      if (f16) {
        const std::uint16_t h = float_to_f16(scale);
        std::memcpy(d.data() + 4 + 2 * i, &h, 2);
      } else {
        std::memcpy(d.data() + 4 + 4 * i, &scale, 4);
      }
    }
    view = {type, rows, cols, q.data() + 1, d.data() + 4, f16};
  }

  int level(std::size_t r, std::size_t c) const {
    const std::size_t block = (r * view.cols + c) / 32;
    if (view.type == WeightType::q8_0) return static_cast<std::int8_t>(view.q[r * view.cols + c]);
    const std::uint8_t byte = view.q[block * 16 + c % 16];
    return (c % 32 < 16 ? byte & 15 : byte >> 4) - 8;
  }
  float scale(std::size_t r, std::size_t b) const {
    const std::size_t i = r * view.cols / 32 + b;
    if (view.d_f16) {
      std::uint16_t h;
      std::memcpy(&h, d.data() + 4 + 2 * i, 2);
      return f16_to_float(h);
    }
    float f;
    std::memcpy(&f, d.data() + 4 + 4 * i, 4);
    return f;
  }
};

struct Quantized {
  std::vector<int> q;
  std::vector<float> d;
};

Quantized quantize(const float* x, std::size_t cols) {
  Quantized out{std::vector<int>(cols), std::vector<float>(cols / 32)};
  for (std::size_t b = 0; b < cols / 32; ++b) {
    std::uint32_t top = 0;
    for (int i = 0; i < 32; ++i)
      top = std::max(top, std::bit_cast<std::uint32_t>(x[b * 32 + i]) & 0x7fffffffu);
    const float amax = std::bit_cast<float>(top);
    if (!(top < 0x7f800000u)) {
      out.d[b] = kNaN;
    } else if (!(amax < 1e-30f)) {
      out.d[b] = amax / 127;
      for (int i = 0; i < 32; ++i) {
        const float v = x[b * 32 + i] * (127 / amax);
        out.q[b * 32 + i] = std::min(127, std::max(-127, static_cast<int>(v + std::copysign(0.5f, v))));
      }
    }
  }
  return out;
}

float reference_row(const TestMatrix& w, std::size_t r, const Quantized& x) {
  float lanes[8] = {};
  for (std::size_t b = 0; b < w.view.cols / 32; ++b) {
    int sum = 0;
    for (std::size_t i = b * 32; i < b * 32 + 32; ++i) sum += w.level(r, i) * x.q[i];
    const float dd = w.scale(r, b) * x.d[b];
    const float term = static_cast<float>(sum) * dd;
    lanes[b % 8] = lanes[b % 8] + term;
  }
  return fold8(lanes);
}

std::vector<const char*> all_names() {
  std::vector<const char*> names;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) names.push_back(*name);
  return names;
}

class EachKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = find_kernels(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "LOUD: this CPU has no " << GetParam();
    ASSERT_STREQ(kernels_->name, GetParam());
  }
  const Kernels* kernels_ = nullptr;
  std::mt19937 rng_{1};
};

/// Activation rows with tails of nasty values.
std::vector<float> nasty_row(std::size_t cols, std::mt19937& rng) {
  std::vector<float> x = random_floats(cols, rng);
  for (std::size_t b = 0; b < cols / 32; ++b) {
    float* block = x.data() + b * 32;
    switch (rng() % 12) {
      case 0: std::fill(block, block + 32, 0.0f); break;
      case 1: std::fill(block, block + 32, -0.0f); break;
      case 2: block[rng() % 32] = kInf; break;
      case 3: block[rng() % 32] = kNaN; break;
      case 4:
        for (int i = 0; i < 32; ++i) block[i] *= 1e-38f;
        break;
      case 5:
        for (int i = 0; i < 32; ++i) block[i] *= 1e-31f;
        break;
      case 6:
        for (int i = 0; i < 32; ++i) block[i] *= 1e37f;
        break;
      case 7:
        for (int i = 0; i < 32; ++i) block[i] = i % 2 ? 3.5f : -3.5f;
        break;
      default: break;
    }
  }
  return x;
}

TEST_P(EachKernels, MatrixTimesVectorFollowsA3) {
  for (const std::size_t cols : {32u, 64u, 96u, 224u, 256u, 288u, 576u, 608u, 1536u})
    for (const WeightType type : {WeightType::q8_0, WeightType::q4_0})
      for (const bool f16 : {false, true})
        for (const bool nasty : {false, true}) {
          const std::size_t
              rows = 69,
              n = 11;  // tiles of 16 and of 32 rows with ends; activation rows by 2, 4, 6 and the rest
          const TestMatrix w(rows, cols, type, f16, rng_, nasty);
          const std::size_t stride = kernels_->activation_bytes(cols);
          ASSERT_EQ(stride % 64, 0u);
          Aligned acts(stride * n), scratch(kernels_->gemm_scratch(cols));
          std::vector<float> want(n * rows), by_gemv(n * rows), by_gemm(n * (rows + 3), 7.0f);
          for (std::size_t t = 0; t < n; ++t) {
            const std::vector<float> x = nasty ? nasty_row(cols, rng_) : random_floats(cols, rng_);
            void* row = static_cast<char*>(acts.data()) + t * stride;
            kernels_->quantize_activation(x.data(), cols, row);
            const Quantized q = quantize(x.data(), cols);
            for (std::size_t r = 0; r < rows; ++r) want[t * rows + r] = reference_row(w, r, q);
            kernels_->gemv(w.view, 0, 5, row, by_gemv.data() + t * rows, nullptr);
            kernels_->gemv(w.view, 5, rows, row, by_gemv.data() + t * rows + 5, nullptr);
          }
          const std::string what =
              fmt::format("cols {} {} f16 {} nasty {}", cols, weight_type_name(type), f16, nasty);
          expect_same(by_gemv, want, "gemv " + what);
          kernels_->gemm(w.view, 0, 16, acts.data(), n, by_gemm.data(), rows + 3, scratch.data(),
                         scratch.size(), nullptr);
          kernels_->gemm(w.view, 16, rows, acts.data(), n, by_gemm.data() + 16, rows + 3, scratch.data(),
                         scratch.size(), nullptr);
          std::vector<float> gemm_rows;
          for (std::size_t t = 0; t < n; ++t) {
            gemm_rows.insert(gemm_rows.end(), by_gemm.begin() + t * (rows + 3),
                             by_gemm.begin() + t * (rows + 3) + rows);
            for (std::size_t i = rows; i < rows + 3; ++i) ASSERT_EQ(by_gemm[t * (rows + 3) + i], 7.0f);
          }
          expect_same(gemm_rows, want, "gemm " + what);
          ASSERT_TRUE(acts.intact() && scratch.intact());
        }
}

// Prompts meet several packed tiles at a time: as many as scratch holds, which changes no bit.
TEST_P(EachKernels, ScratchDoesNotMatter) {
  const std::size_t cols = 96, n = 70;
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_0})
    for (const std::size_t rows : {64u, 333u}) {
      const TestMatrix w(rows, cols, type, true, rng_);
      const std::size_t stride = kernels_->activation_bytes(cols), tile = kernels_->gemm_scratch(cols);
      Aligned acts(stride * n);
      std::vector<float> want(n * rows);
      for (std::size_t t = 0; t < n; ++t) {
        void* row = static_cast<char*>(acts.data()) + t * stride;
        kernels_->quantize_activation(random_floats(cols, rng_).data(), cols, row);
        kernels_->gemv(w.view, 0, rows, row, want.data() + t * rows, w.view.q);
      }
      for (const std::size_t bytes : {tile, tile * 5 / 2, tile * 6, stride * n - 64, stride * n}) {
        Aligned scratch(bytes);
        std::vector<float> got(n * (rows + 3), 7.0f);
        kernels_->gemm(w.view, 0, rows, acts.data(), n, got.data(), rows + 3, scratch.data(), scratch.size(),
                       w.view.q);
        for (std::size_t t = 0; t < n; ++t) {
          const auto row = got.begin() + static_cast<std::ptrdiff_t>(t * (rows + 3));
          expect_same({row, row + static_cast<std::ptrdiff_t>(rows)},
                      {want.begin() + static_cast<std::ptrdiff_t>(t * rows),
                       want.begin() + static_cast<std::ptrdiff_t>((t + 1) * rows)},
                      fmt::format("row {} of {}, scratch {}", t, rows, bytes));
          for (std::size_t i = rows; i < rows + 3; ++i) ASSERT_EQ(got[t * (rows + 3) + i], 7.0f);
        }
        ASSERT_TRUE(scratch.intact());
      }
    }
}

TEST_P(EachKernels, ExtremeQuantsAreExact) {
  const std::size_t cols = 320;
  // Signs that fill the partial sums of int16 to their limits, whichever columns these take together.
  const std::function<bool(std::size_t)> negative[] = {
      [](std::size_t) { return false; },        [](std::size_t) { return true; },
      [](std::size_t i) { return i % 3 == 0; }, [](std::size_t i) { return i % 2 == 0; },
      [](std::size_t i) { return i % 4 < 2; },  [](std::size_t i) { return i % 32 < 16; },
      [](std::size_t i) { return i % 16 < 8; }};
  for (const int byte : {0x80, 0x7f, 0x81, 0x00, 0xff, 0x0f, 0xf0})
    for (const auto& is_negative : negative)
      for (const float sign : {1.0f, -1.0f})
        for (const WeightType type : {WeightType::q8_0, WeightType::q4_0}) {
          TestMatrix w(16, cols, type, true, rng_);
          std::fill(w.q.begin(), w.q.end(), static_cast<std::uint8_t>(byte));
          std::vector<float> x(cols);
          for (std::size_t i = 0; i < cols; ++i) x[i] = is_negative(i) ? -sign : sign;
          Aligned act(kernels_->activation_bytes(cols)), scratch(kernels_->gemm_scratch(cols));
          kernels_->quantize_activation(x.data(), cols, act.data());
          std::vector<float> got(16), tile(16), want(16);
          kernels_->gemv(w.view, 0, 16, act.data(), got.data(), nullptr);
          kernels_->gemm(w.view, 0, 16, act.data(), 1, tile.data(), 16, scratch.data(), scratch.size(),
                         nullptr);
          const Quantized q = quantize(x.data(), cols);
          for (std::size_t r = 0; r < 16; ++r) want[r] = reference_row(w, r, q);
          expect_same(got, want, "gemv");
          expect_same(tile, want, "gemm");
        }
}

TEST_P(EachKernels, DequantizeRow) {
  const TestMatrix w(3, 96, WeightType::q4_0, true, rng_, true);
  std::vector<float> got(96), want(96);
  for (const float scale : {0.0f, 24.0f}) {
    kernels_->dequantize_row(w.view, 2, scale, got.data());
    for (std::size_t c = 0; c < 96; ++c) {
      const float value = static_cast<float>(w.level(2, c)) * w.scale(2, c / 32);
      want[c] = scale == 0 ? value : value * scale;
    }
    expect_same(got, want, "row");
  }
}

std::vector<float> special_floats() {
  std::vector<float> x = {0,      -0.0f,  1,       -1,      kInf,   -kInf,      kNaN,  1e-40f, -1e-40f,
                          88.72f, 88.73f, -87.33f, -87.34f, 0.625f, 0.6249999f, 1e30f, -1e30f};
  for (float v = -100; v < 100; v += 0.731f) x.push_back(v);
  return x;
}

float sigmoid(float x) { return 1 / (1 + math::exp(-x)); }
float gelu(float x) {
  const float inner = 0x1.988454p-1f * (x + 0x1.6e4e26p-5f * ((x * x) * x));
  return (0.5f * x) * (1 + math::tanh(inner));
}

TEST_P(EachKernels, ElementwiseFollowsA4) {
  const std::vector<float> x = special_floats();
  const std::vector<float> y = random_floats(x.size(), rng_);
  for (std::size_t n : {x.size(), std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{9}}) {
    const auto check = [&](const char* what, auto run, auto reference) {
      std::vector<float> got(x.begin(), x.begin() + n), want(n);
      run(got.data());
      for (std::size_t i = 0; i < n; ++i) want[i] = reference(x[i], y[i]);
      expect_same(got, want, what);
    };
    check("add", [&](float* g) { kernels_->add(g, y.data(), n); }, [](float a, float b) { return a + b; });
    check(
        "silu", [&](float* g) { kernels_->silu_mul(g, g, y.data(), n); },
        [](float a, float b) { return (a * sigmoid(a)) * b; });
    check(
        "gelu", [&](float* g) { kernels_->gelu_mul(g, g, y.data(), n); },
        [](float a, float b) { return gelu(a) * b; });
    check(
        "gate", [&](float* g) { kernels_->sigmoid_mul(g, y.data(), n); },
        [](float a, float b) { return a * sigmoid(b); });
    check(
        "softcap", [&](float* g) { kernels_->softcap(g, 30, n); },
        [](float a, float) { return 30 * math::tanh(a / 30); });
    check("divide", [&](float* g) { kernels_->divide(g, 3, n); }, [](float a, float) { return a / 3; });
  }
}

TEST_P(EachKernels, RmsNormFollowsA2) {
  for (const std::size_t n : {1u, 6u, 8u, 20u, 64u, 576u}) {
    const std::vector<float> x = random_floats(n, rng_, 10), w = random_floats(n, rng_);
    std::vector<float> got(n), want(n);
    kernels_->rms_norm(x.data(), w.data(), 1e-5f, n, got.data());
    float lanes[8] = {};
    for (std::size_t i = 0; i < n; ++i) lanes[i % 8] += x[i] * x[i];
    const float inv = 1 / std::sqrt(fold8(lanes) / static_cast<float>(n) + 1e-5f);
    for (std::size_t i = 0; i < n; ++i) want[i] = (x[i] * inv) * w[i];
    expect_same(got, want, "rms_norm");
  }
}

TEST_P(EachKernels, RopeRotatesPairs) {
  std::vector<float> x = random_floats(22, rng_), want = x;
  const std::vector<float> c = random_floats(9, rng_), s = random_floats(9, rng_);
  for (int i = 0; i < 9; ++i) {
    const float x0 = x[2 * i], x1 = x[2 * i + 1];
    want[2 * i] = x0 * c[i] - x1 * s[i];
    want[2 * i + 1] = x0 * s[i] + x1 * c[i];
  }
  kernels_->rope(x.data(), c.data(), s.data(), 9);
  expect_same(x, want, "rope");
}

TEST_P(EachKernels, ToF16RoundsToNearestEven) {
  std::vector<float> x = special_floats();
  for (int i = 0; i < 2000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng_())));
  std::vector<std::uint16_t> got(x.size());
  kernels_->to_f16(x.data(), x.size(), got.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != x[i])
      EXPECT_TRUE(std::isnan(f16_to_float(got[i])));
    else
      EXPECT_EQ(got[i], float_to_f16(x[i])) << x[i];
  }
}

/// Every f16 once, as scales of a matrix of which each row has one weight that is not 0, and so as the
/// products of that row.
TEST_P(EachKernels, EveryF16ScaleIsExact) {
  const std::size_t cols = 256, rows = 65536 / 8;
  std::vector<std::uint8_t> q(rows * cols, 0);
  std::vector<std::uint16_t> d(rows * 8);
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<std::uint16_t>(i);
  for (std::size_t only = 0; only < 8; ++only) {  // the block whose scale is seen
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t b = 0; b < 8; ++b) {
        q[r * cols + b * 32] = b == only ? 1 : 0;
        d[r * 8 + b] = b == only ? static_cast<std::uint16_t>(r * 8 + b) : 0;
      }
    std::vector<float> x(cols, 0);
    x[only * 32] = 127;  // d = 1, q = 127
    Aligned act(kernels_->activation_bytes(cols)), scratch(kernels_->gemm_scratch(cols));
    kernels_->quantize_activation(x.data(), cols, act.data());
    const Matrix w{WeightType::q8_0, rows, cols, q.data(), d.data(), true};
    std::vector<float> want(rows), got(rows), tile(rows);
    for (std::size_t r = 0; r < rows; ++r) want[r] = 0.0f + 127.0f * f16_to_float(d[r * 8 + only]);
    kernels_->gemv(w, 0, rows, act.data(), got.data(), nullptr);
    kernels_->gemm(w, 0, rows, act.data(), 1, tile.data(), rows, scratch.data(), scratch.size(), nullptr);
    expect_same(got, want, "gemv");
    expect_same(tile, want, "gemm");
  }
}

/// A6 for one query and one page, written as the page says it.
struct PageResult {
  float m, l;
  std::vector<float> o;
};
PageResult reference_page(const float* q, const std::vector<float>& k, const std::vector<float>& v, int dim,
                          int first, int last, float scale, float cap) {
  PageResult r{-kInf, 0, std::vector<float>(dim)};
  float s[kPage], lanes[8] = {};
  for (int j = first; j < last; ++j) {
    float sum = 0;
    for (int d = 0; d < dim; ++d) sum = sum + q[d] * k[d * kPage + j];
    s[j] = sum * scale;
    if (cap != 0) s[j] = cap * math::tanh(s[j] / cap);
    if (s[j] > r.m) r.m = s[j];
  }
  for (int j = first; j < last; ++j) {
    s[j] = math::exp(s[j] - r.m);
    lanes[j % 8] = lanes[j % 8] + s[j];
  }
  r.l = fold8(lanes);
  for (int d = 0; d < dim; ++d)
    for (int j = first; j < last; ++j) r.o[d] = r.o[d] + s[j] * v[j * dim + d];
  return r;
}

/// A6's q8_0, written as the page says it: the block's scale and its levels.
float reference_kv_block(const float* x, std::size_t n, std::int8_t* q) {
  float amax = 0;
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  const float d = finite ? f16_to_float(float_to_f16(amax / 127)) : kNaN;
  for (std::size_t i = 0; i < n; ++i) {
    const float y = x[i] * (1 / d);
    q[i] = d > 0 && d < kInf ? static_cast<std::int8_t>(std::min(
                                   127, std::max(-127, static_cast<int>(y + std::copysign(0.5f, y)))))
                             : 0;
  }
  return d < kInf ? d : kNaN;
}

/// A page of one kv head in q8_0, made of [dim][64] keys or [64][dim] values, and its elements as floats.
struct Q8Page {
  std::vector<std::int8_t> bytes;
  std::vector<float> decoded;
};
Q8Page q8_page(const std::vector<float>& x, int dim, bool keys) {
  const int blocks = (dim + 31) / 32;
  Q8Page page{std::vector<std::int8_t>((dim + 2 * blocks) * kPage), std::vector<float>(dim * kPage)};
  for (int j = 0; j < kPage; ++j)
    for (int b = 0; b < blocks; ++b) {
      const int n = std::min(32, dim - b * 32);
      const auto at = [&](int i) { return keys ? (b * 32 + i) * kPage + j : j * dim + b * 32 + i; };
      float block[32];
      std::int8_t q[32];
      for (int i = 0; i < n; ++i) block[i] = x[at(i)];
      const float d = reference_kv_block(block, n, q);
      const std::uint16_t half = float_to_f16(d);
      std::memcpy(page.bytes.data() + dim * kPage + 2 * (keys ? b * kPage + j : j * blocks + b), &half, 2);
      for (int i = 0; i < n; ++i) {
        page.bytes[at(i)] = q[i];
        page.decoded[at(i)] = static_cast<float>(q[i]) * d;
      }
    }
  return page;
}

TEST_P(EachKernels, KeysAndValuesToQ8FollowA6) {
  for (const std::size_t n : {1u, 2u, 7u, 31u, 32u, 33u, 64u, 72u, 128u})
    for (const float sigma : {1.0f, 1e-6f, 1e-8f, 1e-31f, 1e6f, 1e7f, 1e38f})
      for (int round = 0; round < 20; ++round) {
        std::vector<float> x = random_floats(n, rng_, sigma);
        if (round == 0) std::fill(x.begin(), x.end(), -0.0f);
        if (round == 1) x[n - 1] = kInf;
        if (round == 2) x[n / 2] = -kInf;
        if (round == 3) x[0] = kNaN;
        if (round == 4) x[n - 1] = 127 * 65519.0f;  // the largest scale, and one too large
        if (round == 5) x[n - 1] = -127 * 65520.0f;
        if (round == 6) std::fill(x.begin(), x.end(), 2.5f);
        const std::size_t blocks = (n + 31) / 32;
        std::vector<std::int8_t> got(n + 1, 77), want(n);
        std::vector<std::uint16_t> scales(blocks + 1, 77);
        kernels_->quantize_kv(x.data(), n, got.data(), scales.data());
        for (std::size_t b = 0; b < blocks; ++b) {
          const float d = reference_kv_block(x.data() + b * 32, std::min<std::size_t>(32, n - b * 32),
                                             want.data() + b * 32);
          ASSERT_TRUE(same_bits(f16_to_float(scales[b]), d)) << n << " " << sigma << " " << round;
        }
        ASSERT_TRUE(std::equal(want.begin(), want.end(), got.begin())) << n << " " << sigma << " " << round;
        ASSERT_TRUE(got[n] == 77 && scales[blocks] == 77);
      }
}

TEST_P(EachKernels, AttentionPageFollowsA6) {
  for (const int dim : {2, 6, 20, 32, 42, 64, 72, 128})
    for (const KvType type : {KvType::f32, KvType::f16, KvType::q8_0})
      for (const float cap : {0.0f, 5.0f}) {
        constexpr int kMost = 22;  // those with an index from 8 on see the same
        std::vector<float> k = random_floats(dim * kPage, rng_), v = random_floats(dim * kPage, rng_);
        v[3 * dim] = kInf;  // position 3 is invisible to some: it must not leak
        std::vector<std::uint16_t> k16(k.size()), v16(v.size());
        kernels_->to_f16(k.data(), k.size(), k16.data());
        kernels_->to_f16(v.data(), v.size(), v16.data());
        if (type == KvType::f16)
          for (std::size_t i = 0; i < k.size(); ++i) k[i] = f16_to_float(k16[i]), v[i] = f16_to_float(v16[i]);
        const Q8Page k8 = q8_page(k, dim, true), v8 = q8_page(v, dim, false);
        if (type == KvType::q8_0) k = k8.decoded, v = v8.decoded;
        const void* keys[] = {k16.data(), k.data(), k8.bytes.data()};
        const void* values[] = {v16.data(), v.data(), v8.bytes.data()};
        const std::vector<float> q = random_floats(kMost * dim, rng_, 2);
        int first[kMost] = {0, 0, 0, 4, 5, 5, 63, 0}, last[kMost] = {64, 64, 3, 64, 17, 17, 64, 1};
        std::fill(first + 8, first + kMost, 2);
        std::fill(last + 8, last + kMost, 50);
        const float* rows[kMost];
        for (int i = 0; i < kMost; ++i) rows[i] = q.data() + i * dim;
        const std::size_t stride = (dim + 7) / 8 * 8;
        for (const auto& [from, nq] : {std::pair{0, kMost},
                                       {0, 8},
                                       {0, 1},
                                       {0, 2},
                                       {0, 3},
                                       {2, 2},
                                       {3, 3},
                                       {4, 2},
                                       {6, 1},
                                       {7, 1},
                                       {8, 4},
                                       {8, 5},
                                       {8, 7},
                                       {8, 8},
                                       {8, 9},
                                       {8, 14}}) {
          Aligned scratch(attend_scratch(dim, nq) * sizeof(float));
          std::vector<float> m(nq), l(nq), o(nq * stride);
          kernels_->attend_page({rows + from, first + from, last + from, nq, dim,
                                 keys[static_cast<int>(type)], values[static_cast<int>(type)],
                                 nq == 2 ? k.data() : nullptr, type, 0.3f, cap,
                                 static_cast<float*>(scratch.data()), m.data(), l.data(), o.data(), stride});
          ASSERT_TRUE(scratch.intact());
          for (int i = 0; i < nq; ++i) {
            const PageResult want =
                reference_page(rows[from + i], k, v, dim, first[from + i], last[from + i], 0.3f, cap);
            ASSERT_TRUE(same_bits(m[i], want.m) && same_bits(l[i], want.l)) << dim << " " << i;
            expect_same({o.begin() + i * stride, o.begin() + i * stride + dim}, want.o,
                        fmt::format("o dim {} query {}", dim, i));
          }
        }
      }
}

TEST_P(EachKernels, PagesMerge) {
  const std::vector<float> ms = {1.5f, -3, 1.5f, 90, -kInf, 1e5f, 3};
  for (const std::size_t dim : {13u, 16u, 24u, 40u})
    for (std::size_t nq = 0; nq <= 19; ++nq) {
      const std::size_t stride = dim + 3;
      std::vector<float> M(nq), m(nq), L = random_floats(nq, rng_), l = random_floats(nq, rng_);
      for (std::size_t i = 0; i < nq; ++i)
        M[i] = ms[(i + dim) % ms.size()], m[i] = ms[(i * 3 + nq) % ms.size()];
      std::vector<float> O = random_floats(nq * stride, rng_), o = random_floats(nq * stride, rng_);
      std::vector<float> want_M(nq), want_L(nq), want = O;
      for (std::size_t i = 0; i < nq; ++i) {
        want_M[i] = M[i] > m[i] ? M[i] : m[i];
        const float a = math::exp(M[i] - want_M[i]), b = math::exp(m[i] - want_M[i]);
        want_L[i] = L[i] * a + l[i] * b;
        for (std::size_t d = 0; d < dim; ++d)
          want[i * stride + d] = O[i * stride + d] * a + o[i * stride + d] * b;
      }
      kernels_->attend_merge({nq, dim, M.data(), L.data(), O.data(), m.data(), l.data(), o.data(), stride});
      expect_same(M, want_M, "M");
      expect_same(L, want_L, "L");
      expect_same(O, want, "O");
    }
}

TEST_P(EachKernels, CausalConvolutionFollowsA7) {
  for (const std::size_t channels : {1u, 8u, 30u, 64u, 71u, 200u})
    for (const std::size_t n_taps : {1u, 2u, 3u, 4u, 5u, 8u, 11u})
      for (const std::size_t count : {1u, 2u, 9u}) {
        const std::size_t stride = (channels + 7) / 8 * 8 + 8, past = n_taps - 1;
        const std::vector<float> taps = random_floats(channels * n_taps, rng_);
        std::vector<float> rows = random_floats((past + count) * stride, rng_),
                           y(count * stride, 7.0f);  // history, then inputs
        rows[stride / 2] = kInf;
        rows[rows.size() - stride] = kNaN;
        kernels_->causal_conv({channels, n_taps, count, taps.data(), rows.data(), rows.data() + past * stride,
                               y.data(), stride});
        for (std::size_t p = 0; p < count; ++p) {
          for (std::size_t c = 0; c < channels; ++c) {
            float sum = 0;
            for (std::size_t t = 0; t < n_taps; ++t)
              sum = sum + taps[c * n_taps + t] * rows[(p + t) * stride + c];
            ASSERT_TRUE(same_bits(y[p * stride + c], sum * sigmoid(sum)))
                << channels << " " << n_taps << " " << p << " " << c;
          }
          for (std::size_t c = stride - 8; c < stride; ++c) ASSERT_EQ(y[p * stride + c], 7.0f);
        }
      }
}

TEST_P(EachKernels, L2NormFollowsA7) {
  for (const std::size_t n : {1u, 6u, 8u, 33u, 128u})
    for (const float sigma : {0.0f, 1e-20f, 1.0f, 1e30f}) {
      std::vector<float> x = random_floats(n + 1, rng_);
      for (float& v : x) v = v * sigma;
      float lanes[8] = {};
      for (std::size_t i = 0; i < n; ++i) lanes[i % 8] += x[i] * x[i];
      const float inv = 1 / std::sqrt(fold8(lanes) + 1e-6f);
      std::vector<float> want = x;
      for (std::size_t i = 0; i < n; ++i) want[i] = (x[i] * inv) * 0.3f;
      kernels_->l2_norm(x.data(), 0.3f, n);
      expect_same(x, want, "l2_norm");
    }
}

TEST_P(EachKernels, DeltaGatesFollowA7) {
  const std::vector<float> odd = {0.0f,  -0.0f,  kInf,  -kInf, kNaN,   1e-40f,  -3e-42f, 0x1p-24f, -0x1p-25f,
                                  20.0f, -20.0f, 88.8f, 89.0f, -87.4f, -103.0f, 3e38f,   -3e38f,   1.0f};
  for (std::size_t heads = 1; heads <= 35; ++heads)
    for (std::size_t shift = 0; shift < odd.size(); ++shift) {
      // a, A_log and dt_bias meet each other's odd values in turn; one of them at a time is random.
      std::vector<float> beta(heads), decay(heads), A_log = random_floats(heads, rng_),
                                                    dt_bias = random_floats(heads, rng_);
      for (std::size_t i = 0; i < heads; ++i) {
        beta[i] = decay[i] = odd[i % odd.size()];
        if (i % 3 != 0) A_log[i] = odd[(i + shift) % odd.size()];
        if (i % 3 != 1) dt_bias[i] = odd[(i + shift * 5) % odd.size()];
      }
      std::vector<float> want_beta, want_decay;
      for (std::size_t i = 0; i < heads; ++i) {
        const float x = decay[i] + dt_bias[i];
        const float softplus = (x != x || x > 0 ? x : 0.0f) + math::log1p(math::exp(-std::fabs(x)));
        want_beta.push_back(1 / (1 + math::exp(-beta[i])));
        want_decay.push_back(math::exp(-math::exp(A_log[i]) * softplus));
      }
      for (std::vector<float>* v : {&beta, &decay, &want_beta, &want_decay}) v->push_back(7.0f);  // canaries
      kernels_->delta_gates({heads, beta.data(), decay.data(), A_log.data(), dt_bias.data()});
      expect_same(beta, want_beta, "beta");
      expect_same(decay, want_decay, "decay");
    }
}

TEST_P(EachKernels, DeltaRuleFollowsA7) {
  for (const std::size_t dk : {1u, 5u, 16u, 128u})
    for (const std::size_t width : {1u, 4u, 8u, 12u, 16u, 20u, 24u, 31u, 32u})
      for (const std::size_t count : {1u, 2u, 5u})
        for (const bool nasty : {false, true}) {
          const std::size_t stride = 2 * dk + width + 3, padded = (width + 7) / 8 * 8, gates = 3,
                            o_stride = width + 1;
          std::vector<float> qkv = random_floats(count * stride, rng_),
                             beta = random_floats(count * gates, rng_),
                             g = random_floats(count * gates, rng_);
          std::vector<float> state = random_floats(dk * padded, rng_), o(count * o_stride, 7.0f), want_o = o,
                             want = state;
          if (nasty) {
            state[width / 2] = want[width / 2] = kInf;
            qkv[2 * dk] = kNaN;
            g[0] = 0;
          }
          for (std::size_t p = 0; p < count; ++p) {
            const float* q = qkv.data() + p * stride;
            const float *k = q + dk, *v = k + dk;
            for (std::size_t j = 0; j < width; ++j) {
              float kv = 0, out = 0;
              for (std::size_t i = 0; i < dk; ++i) {
                want[i * padded + j] = want[i * padded + j] * g[p * gates];
                kv = kv + want[i * padded + j] * k[i];
              }
              const float delta = beta[p * gates] * (v[j] - kv);
              for (std::size_t i = 0; i < dk; ++i) {
                want[i * padded + j] = want[i * padded + j] + k[i] * delta;
                out = out + want[i * padded + j] * q[i];
              }
              want_o[p * o_stride + j] = out;
            }
          }
          kernels_->delta_rule({count, dk, width, qkv.data(), qkv.data() + dk, qkv.data() + 2 * dk, stride,
                                beta.data(), g.data(), gates, state.data(), o.data(), o_stride});
          const std::string what = fmt::format("dk {} width {} count {} nasty {}", dk, width, count, nasty);
          expect_same(o, want_o, "o " + what);  // with what lies between the rows
          for (std::size_t i = 0; i < dk; ++i)
            for (std::size_t j = 0; j < width; ++j)
              ASSERT_TRUE(same_bits(state[i * padded + j], want[i * padded + j])) << what;
        }
}

INSTANTIATE_TEST_SUITE_P(Isa, EachKernels, testing::ValuesIn(all_names()),
                         [](const auto& isa) { return std::string(isa.param); });

TEST(ChooseKernels, ForcedSetRunsOrFails) {
  EXPECT_STREQ(choose_kernels("scalar").name, "scalar");
  try {
    choose_kernels("mmx");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), ML_E_ISA);
    EXPECT_NE(std::string(e.what()).find("mmx"), std::string::npos);
  }
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    ml_status status = ML_OK;
    try {
      EXPECT_STREQ(choose_kernels(*name).name, *name);
    } catch (const Error& e) {
      status = e.status();
    }
    EXPECT_EQ(status, find_kernels(*name) != nullptr ? ML_OK : ML_E_ISA) << *name;
  }
}

}  // namespace
}  // namespace krafla
