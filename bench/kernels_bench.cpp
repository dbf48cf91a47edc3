// Speed of the kernels on one thread: build/release/bench_kernels [--benchmark_filter=...].
// GEMV on a matrix larger than the caches shows memory's speed; GEMM shows the multiply-adds a second.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "base/aligned.h"
#include "kernels/kernels.h"

namespace krafla {
namespace {

struct Weights {
  std::vector<std::uint8_t> q;
  std::vector<std::uint16_t> d;
  Matrix view;

  Weights(std::size_t rows, std::size_t cols, bool q4) : q(rows * cols / (q4 ? 2 : 1)), d(rows * cols / 32, 0x2000) {
    std::mt19937 rng(1);
    for (auto& byte : q) byte = static_cast<std::uint8_t>(rng() % 255 + 129);
    view = {q.data(), d.data(), rows, cols, q4, true};
  }
};

AlignedArray<std::uint8_t> activations(const Kernels& kernels, std::size_t cols, std::size_t n) {
  AlignedArray<std::uint8_t> out(n * kernels.activation_bytes(cols));
  std::vector<float> x(cols);
  for (std::size_t i = 0; i < cols; ++i) x[i] = static_cast<float>(i % 17) - 8;
  for (std::size_t i = 0; i < n; ++i) kernels.quantize_activation(x.data(), cols, out.data() + i * kernels.activation_bytes(cols));
  return out;
}

void gemv(benchmark::State& state, const Kernels* kernels, bool q4) {
  const auto rows = static_cast<std::size_t>(state.range(0)), cols = static_cast<std::size_t>(state.range(1));
  const Weights w(rows, cols, q4);
  const auto x = activations(*kernels, cols, 1);
  std::vector<float> y(rows);
  for (auto _ : state) {
    kernels->gemv(w.view, 0, rows, x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(w.q.size() + 2 * w.d.size()));
}

void gemm(benchmark::State& state, const Kernels* kernels, bool q4) {
  const auto rows = static_cast<std::size_t>(state.range(0)), cols = static_cast<std::size_t>(state.range(1));
  const auto n = static_cast<std::size_t>(state.range(2));
  const Weights w(rows, cols, q4);
  const auto x = activations(*kernels, cols, n);
  AlignedArray<std::uint8_t> scratch(kernels->gemm_scratch(cols));
  std::vector<float> y(n * rows);
  for (auto _ : state) {
    kernels->gemm(w.view, 0, rows, x.data(), n, y.data(), rows, scratch.data());
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["GMAC/s"] = benchmark::Counter(static_cast<double>(rows * cols * n) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void attend(benchmark::State& state, const Kernels* kernels) {
  const int dim = 64, nq = static_cast<int>(state.range(0));
  AlignedArray<std::uint16_t> k(dim * kPage), v(dim * kPage);
  for (std::size_t i = 0; i < dim * kPage; ++i) k.data()[i] = v.data()[i] = 0x3000;
  std::vector<float> q(dim, 0.5f), m(nq), l(nq), o(nq * dim);
  AlignedArray<float> scratch(attend_scratch(dim, nq));
  const std::vector<const float*> rows(nq, q.data());
  const std::vector<int> first(nq, 0), last(nq, kPage);
  for (auto _ : state) {
    kernels->attend_page({rows.data(), first.data(), last.data(), nq, dim, k.data(), v.data(), KvType::f16, 0.125f, 0, scratch.data(), m.data(),
                          l.data(), o.data(), dim});
    benchmark::DoNotOptimize(o.data());
  }
  state.counters["GMAC/s"] = benchmark::Counter(2e-9 * nq * dim * kPage, benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const Kernels* kernels = find_kernels(*name);
    if (kernels == nullptr) continue;
    const std::string isa = *name;
    for (const bool q4 : {false, true}) {
      const std::string type = q4 ? "/q4_0" : "/q8_0";
      benchmark::RegisterBenchmark((isa + type + "/gemv").c_str(), gemv, kernels, q4)->Args({576, 576})->Args({49152, 576})->Args({65536, 1536});
      benchmark::RegisterBenchmark((isa + type + "/gemm").c_str(), gemm, kernels, q4)->Args({576, 576, 256})->Args({576, 1536, 256})->Args({576, 576, 8});
    }
    benchmark::RegisterBenchmark((isa + "/attend").c_str(), attend, kernels)->Arg(1)->Arg(3)->Arg(48);
  }
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) {
  krafla::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
