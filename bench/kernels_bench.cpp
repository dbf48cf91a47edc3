// Speed of the kernels on one thread: build/release/bench_kernels [--benchmark_filter=...].
// GEMV on a matrix larger than the caches shows memory's speed; GEMM shows the multiply-adds a second.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/aligned.h"
#include "base/cpu.h"
#include "kernels/kernels.h"

namespace krafla {
namespace {

struct Weights {
  std::vector<std::uint8_t> q;
  std::vector<std::uint16_t> d;
  Matrix view;

  Weights(std::size_t rows, std::size_t cols, WeightType type)
      : q(rows * cols / (type == WeightType::q4_0 ? 2 : 1)), d(rows * cols / 32, 0x2000) {
    std::mt19937 rng(1);
    for (auto& byte : q) byte = static_cast<std::uint8_t>(rng() % 255 + 129);
    view = {type, rows, cols, q.data(), d.data(), true};
  }
};

AlignedArray<std::uint8_t> activations(const Kernels& kernels, std::size_t cols, std::size_t n) {
  AlignedArray<std::uint8_t> out(n * kernels.activation_bytes(cols));
  std::vector<float> x(cols);
  for (std::size_t i = 0; i < cols; ++i) x[i] = static_cast<float>(i % 17) - 8;
  for (std::size_t i = 0; i < n; ++i)
    kernels.quantize_activation(x.data(), cols, out.data() + i * kernels.activation_bytes(cols));
  return out;
}

void gemv(benchmark::State& state, const Kernels* kernels, WeightType type) {
  const auto rows = static_cast<std::size_t>(state.range(0)), cols = static_cast<std::size_t>(state.range(1));
  const Weights w(rows, cols, type);
  const auto x = activations(*kernels, cols, 1);
  std::vector<float> y(rows);
  for (auto _ : state) {
    kernels->gemv(w.view, 0, rows, x.data(), y.data(), nullptr);
    benchmark::DoNotOptimize(y.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(w.q.size() + 2 * w.d.size()));
}

void gemm(benchmark::State& state, const Kernels* kernels, WeightType type) {
  const auto rows = static_cast<std::size_t>(state.range(0)), cols = static_cast<std::size_t>(state.range(1));
  const auto n = static_cast<std::size_t>(state.range(2));
  const Weights w(rows, cols, type);
  const auto x = activations(*kernels, cols, n);
  AlignedArray<std::uint8_t> scratch(std::max(kernels->gemm_scratch(cols), l2_budget()));
  std::vector<float> y(n * rows);
  for (auto _ : state) {
    kernels->gemm(w.view, 0, rows, x.data(), n, y.data(), rows, scratch.data(), scratch.size(), nullptr);
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["GMAC/s"] = benchmark::Counter(static_cast<double>(rows * cols * n) * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
}

/// A prompt of 256 positions through a slice of 32 values of a head, state 128 x 32: positions a second.
void delta(benchmark::State& state, const Kernels* kernels) {
  const std::size_t n = 256, dk = 128, channels = 6144;
  std::vector<float> qkv(n * channels), beta(n, 0.5f), g(n, 0.9f), o(n * kDeltaSlice);
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i % 17) * 0.01f - 0.08f;
  AlignedArray<float> s(dk * kDeltaSlice);
  std::fill_n(s.data(), dk * kDeltaSlice, 0.0f);
  for (auto _ : state) {
    kernels->delta_rule({n, dk, kDeltaSlice, qkv.data(), qkv.data() + 2048, qkv.data() + 4096, channels,
                         beta.data(), g.data(), 1, s.data(), o.data(), kDeltaSlice});
    benchmark::DoNotOptimize(o.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(n));
}

/// 256 positions of 256 channels, four taps, out of 6144; items are positions times channels.
void convolve(benchmark::State& state, const Kernels* kernels) {
  const std::size_t n = 256, width = 256, channels = 6144;
  std::vector<float> taps(width * 4, 0.25f), history(3 * channels), x(n * channels, 0.5f), y(n * channels);
  for (auto _ : state) {
    kernels->causal_conv({width, 4, n, taps.data(), history.data(), x.data(), y.data(), channels});
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(n * width));
}

void attend(benchmark::State& state, const Kernels* kernels, KvType type) {
  const int dim = 64, nq = static_cast<int>(state.range(0));
  AlignedArray<std::uint16_t> k(dim * kPage), v(dim * kPage);
  for (std::size_t i = 0; i < dim * kPage; ++i) k.data()[i] = v.data()[i] = 0x3000;
  std::vector<float> q(dim, 0.5f), m(nq), l(nq), o(nq * dim);
  AlignedArray<float> scratch(attend_scratch(dim, nq));
  const std::vector<const float*> rows(nq, q.data());
  const std::vector<int> first(nq, 0), last(nq, kPage);
  for (auto _ : state) {
    kernels->attend_page({rows.data(), first.data(), last.data(), nq, dim, k.data(), v.data(), nullptr, type,
                          0.125f, 0, scratch.data(), m.data(), l.data(), o.data(), dim});
    benchmark::DoNotOptimize(o.data());
  }
  state.counters["GMAC/s"] =
      benchmark::Counter(2e-9 * nq * dim * kPage, benchmark::Counter::kIsIterationInvariantRate);
}

/// Weights to blocks, from and to a core's cache; items are weights.
void quantize(benchmark::State& state,
              void (*rows)(const Kernels&, const float*, const float*, std::size_t, std::uint8_t*, float*),
              const Kernels* kernels) {
  constexpr std::size_t kBlocks = 2048;
  std::vector<float> x(kBlocks * 32), w(x.size()), d(kBlocks);
  std::vector<std::uint8_t> q(x.size());
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 0.02f);
  for (float& v : x) v = normal(rng);
  for (std::size_t i = 0; i < x.size(); ++i) w[i] = x[i] * x[i] + 1e-4f;
  for (auto _ : state) {
    rows(*kernels, x.data(), w.data(), kBlocks, q.data(), d.data());
    benchmark::DoNotOptimize(q.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(x.size()));
}

void register_quantize(const std::string& isa, const Kernels* kernels) {
  const auto add = [&](const char* name, auto rows) {
    benchmark::RegisterBenchmark((isa + name).c_str(), quantize, rows, kernels);
  };
  using F = const float*;
  add(
      "/q8_0/quantize", +[](const Kernels& k, F x, F, std::size_t n, std::uint8_t* q, float* d) {
        k.quantize_q8(x, n, true, q, d);
      });
  add(
      "/q4_0/search", +[](const Kernels& k, F x, F, std::size_t n, std::uint8_t* q, float* d) {
        k.quantize_q4_search(x, nullptr, n, q, d);
      });
  add(
      "/q4_0/weighted", +[](const Kernels& k, F x, F w, std::size_t n, std::uint8_t* q, float* d) {
        k.quantize_q4_search(x, w, n, q, d);
      });
  add(
      "/q4_0/round", +[](const Kernels& k, F x, F, std::size_t n, std::uint8_t* q, float* d) {
        k.quantize_q4_round(x, n, q, d);
      });
}

void register_all() {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const Kernels* kernels = find_kernels(*name);
    if (kernels == nullptr) continue;
    const std::string isa = *name;
    for (const WeightType weights : {WeightType::q8_0, WeightType::q4_0}) {
      const std::string type = weights == WeightType::q4_0 ? "/q4_0" : "/q8_0";
      benchmark::RegisterBenchmark((isa + type + "/gemv").c_str(), gemv, kernels, weights)
          ->Args({576, 576})
          ->Args({49152, 576})
          ->Args({65536, 1536});
      benchmark::RegisterBenchmark((isa + type + "/gemm").c_str(), gemm, kernels, weights)
          ->Args({576, 576, 256})
          ->Args({576, 1536, 256})
          ->Args({896, 4864, 256})
          ->Args({4864, 896, 256})
          ->Args({576, 576, 8})
          ->Args({576, 576, 16})
          ->Args({576, 576, 32});
    }
    benchmark::RegisterBenchmark((isa + "/attend/f16").c_str(), attend, kernels, KvType::f16)
        ->Arg(1)
        ->Arg(3)
        ->Arg(4)
        ->Arg(7)
        ->Arg(48);
    benchmark::RegisterBenchmark((isa + "/attend/q8_0").c_str(), attend, kernels, KvType::q8_0)
        ->Arg(1)
        ->Arg(3)
        ->Arg(48);
    benchmark::RegisterBenchmark((isa + "/delta").c_str(), delta, kernels);
    benchmark::RegisterBenchmark((isa + "/convolve").c_str(), convolve, kernels);
    register_quantize(isa, kernels);
  }
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) {
  krafla::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
