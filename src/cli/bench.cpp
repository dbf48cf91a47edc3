// `krafla bench`: tokens per second of prefill and decode, as text or JSON.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "model/forward.h"

namespace krafla::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  ComputeOptions compute;
  std::vector<std::size_t> prefill{512}, decode{128};
  std::size_t depth = 0, chunk = 256;
  int repeats = 3;
  KvType kv = KvType::f16;
  bool json = false;
};

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        context_(make_context(options.compute)),
        model_(open_model(options.compute, *context_)),
        logits_(model_.header().vocab) {}

  const Context& context() const { return *context_; }

  /// Tokens per second of feeding n tokens, `step` a forward call, after `depth` others; the median of the repeats.
  double measure(std::size_t n, std::size_t step) {
    PagePool pool(KvLayout(model_.mlb(), options_.kv));
    Sequence sequence(pool);
    feed(sequence, options_.depth, options_.chunk);
    std::vector<double> rates;
    for (int i = 0; i < options_.repeats; ++i) {
      Sequence copy = sequence;
      const auto start = Clock::now();
      feed(copy, n, step);
      rates.push_back(static_cast<double>(n) / std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  }

 private:
  void feed(Sequence& sequence, std::size_t n, std::size_t step) {
    std::vector<BatchRow> rows;
    for (std::size_t done = 0; done < n; done += rows.size()) {
      rows.clear();
      for (std::size_t i = done; i < n && rows.size() < step; ++i)
        rows.push_back({&sequence, static_cast<std::int32_t>((i * 7919 + 1) % model_.header().vocab), false});
      rows.back().wants_logits = step == 1 || done + rows.size() == n;  // a prefill needs the last row's only
      forward(model_, *context_, batch_, rows);
      if (rows.back().wants_logits) classify(model_, *context_, batch_, 0, 1, logits_.data());
    }
  }

  const BenchOptions& options_;
  std::unique_ptr<Context> context_;
  Model model_;
  Batch batch_;
  std::vector<float> logits_;
};

void run(const BenchOptions& options) {
  Bench bench(options);
  nlohmann::json report = {
      {"isa", bench.context().kernels.name}, {"prefill", nlohmann::json::array()}, {"decode", nlohmann::json::array()}};
  const auto measure = [&](const char* kind, const std::vector<std::size_t>& counts, std::size_t step) {
    for (const std::size_t n : counts) {
      const double rate = bench.measure(n, step);
      report[kind].push_back(
          {{"n", n}, {"depth", options.depth}, {"batch", 1}, {"threads", bench.context().threads.size()}, {"tok_s", rate}});
      if (!options.json) std::printf("%-8s %12s at depth %zu: %8.1f tok/s\n", kind, counted(n, "token").c_str(), options.depth, rate);
    }
  };
  measure("prefill", options.prefill, options.chunk);
  measure("decode", options.decode, 1);
  if (options.json) std::printf("%s\n", report.dump().c_str());
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode speed");
  auto options = std::make_shared<BenchOptions>();
  add_compute_options(*command, options->compute);
  const auto count = CLI::Range(std::size_t{1}, std::size_t{1} << 24);
  command->add_option("--prefill", options->prefill, "Prompt lengths to measure")->check(count)->delimiter(',')->capture_default_str();
  command->add_option("--decode,-n", options->decode, "Numbers of single steps to measure")
      ->check(count)
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--depth", options->depth, "Positions that are there before")->capture_default_str();
  command->add_option("--chunk", options->chunk, "Positions a forward call of a prefill")->check(count)->capture_default_str();
  command->add_option("-r,--repeats", options->repeats, "The median of this many runs")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  add_kv_option(*command, options->kv);
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
