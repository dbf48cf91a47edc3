// `krafla bench`: how fast a model runs beside what this machine allows, as a table or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/output_file.h"
#include "base/pluralized.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "eval/engine_speed.h"
#include "eval/model_shapes.h"
#include "eval/random_model.h"
#include "eval/speed.h"

namespace krafla::cli {
namespace {

struct BenchOptions {
  ComputeOptions compute;
  std::string shape, save;
  WeightType type = WeightType::q8_0;
  std::vector<std::size_t> prefill{512}, decode{128}, depth{0}, batch{1};
  std::vector<int> threads;  // empty: the default's one
  std::vector<std::size_t> requests;
  std::size_t beside = 0;
  std::size_t chunk = 256;
  int repeats = 3;
  KvType kv = KvType::f16;
  bool json = false;
};

/// One measured combination.
struct Cell {
  bool decode;
  std::size_t n, depth, batch;
  int threads;
  Speed speed;
  Limits limits;

  double rate() const { return speed.tokens / speed.seconds; }
  double limit() const { return speed.tokens / limits.seconds(speed.work); }
  double bytes_s() const { return speed.work.bytes / speed.seconds; }
  double multiply_adds_s() const { return speed.work.multiply_adds / speed.seconds; }
};

/// Positions that the longest history and what is measured on it take.
std::size_t positions(const BenchOptions& o) {
  const auto most = [](const std::vector<std::size_t>& values) {
    return *std::max_element(values.begin(), values.end());
  };
  return most(o.depth) + std::max(most(o.prefill), most(o.decode));
}

/// Refuses what cannot be measured before anything is. `weights`: bytes that have yet to be made.
void check_size(const BenchOptions& o, const std::string& name, const Mlb& mlb, double weights) {
  const std::size_t most = positions(o);
  if (most > mlb.header.max_seq)
    fail(ML_E_ARG, "{}: --depth and what is measured on it reach {} positions; the model's max_seq is {}",
         name, most, mlb.header.max_seq);
  const KvLayout layout(ModelConfig(mlb), o.kv);
  std::size_t kept = 0;  // layers that keep keys and values
  for (const MlbLayer& layer : mlb.layers) kept += (layer.flags & kLayerLinear) == 0;
  const std::size_t batch = *std::max_element(o.batch.begin(), o.batch.end());
  const double one = static_cast<double>(layout.position_bytes() * kept) * static_cast<double>(most) +
                     static_cast<double>(layout.page_bytes(KvLayout::linear));
  const double states = one * static_cast<double>(batch);
  const auto have = static_cast<double>(available_memory());
  if (have > 0 && weights + states > have)
    fail(ML_E_MEMORY,
         "{}: {:.1f} GB of weights to make and {:.1f} GB for the state of {} of {} positions, but {:.1f} GB "
         "of memory are available",
         name, weights * 1e-9, states * 1e-9, pluralized(batch, "sequence"), most, have * 1e-9);
}

Model open(const BenchOptions& o, Context& context) {
  if (o.shape.empty()) {
    Model model = load_model(o.compute.model, o.compute, context.threads).model;
    check_size(o, model.path(), model.mlb(), 0);
    return model;
  }
  const ModelShape& shape = find_shape(o.shape);
  Mlb outline;
  outline.header = shape.header(o.type);
  const std::vector<std::uint8_t> flags = shape.flags();
  for (const std::uint8_t layer : flags) outline.layers.emplace_back().flags = layer;
  const ModelSize size = model_size(outline.header, flags, shape.name);
  check_size(o, "--shape " + o.shape, outline, static_cast<double>(size.bytes));
  return random_model(outline.header, flags, shape.name, context.threads);
}

void save(const std::string& path, Bytes bytes) {
  OutputFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void print_header(const Model& model, const char* isa) {
  std::printf("%s: %s, %.1f MB, %s\n", model.path().c_str(), weight_type_name(model.header().weight_type()),
              static_cast<double>(model.bytes().size()) * 1e-6, isa);
  std::printf("%-8s %7s %7s %6s %8s %10s %10s %8s %6s %9s %6s\n", "", "threads", "depth", "batch", "tokens",
              "tokens/s", "ms/token", "GB/s", "%", "GMAC/s", "%");
}

void print_limits(int threads, const Limits& limits) {
  std::printf("%-8s %7d %7s %6s %8s %10s %10s %8.1f %6s %9.1f\n", "limit", threads, "", "", "", "", "",
              limits.bytes_s * 1e-9, "", limits.multiply_adds_s * 1e-9);
}

void print_cell(const Cell& c) {
  std::printf("%-8s %7d %7zu %6zu %8zu %10.1f %10.2f %8.1f %6.0f %9.1f %6.0f\n",
              c.decode ? "decode" : "prefill", c.threads, c.depth, c.batch, c.n, c.rate(), 1e3 / c.rate(),
              c.bytes_s() * 1e-9, 100 * c.bytes_s() / c.limits.bytes_s, c.multiply_adds_s() * 1e-9,
              100 * c.multiply_adds_s() / c.limits.multiply_adds_s);
  std::fflush(stdout);
}

nlohmann::json json_of(const Cell& c) {
  return {{"n", c.n},
          {"depth", c.depth},
          {"batch", c.batch},
          {"threads", c.threads},
          {"tok_s", c.rate()},
          {"limit_tok_s", c.limit()},
          {"gb_s", c.bytes_s() * 1e-9},
          {"gmac_s", c.multiply_adds_s() * 1e-9},
          {"gb_share", c.bytes_s() / c.limits.bytes_s},
          {"gmac_share", c.multiply_adds_s() / c.limits.multiply_adds_s}};
}

/// What the engine serves: requests that join at random, and answers beside a long prompt.
nlohmann::json measure_engine(const BenchOptions& o, const Model& model, Context& context) {
  constexpr std::size_t kPrompt = 64, kAnswer = 64, kLongest = 8000;
  const std::size_t room = model.config().max_seq;
  nlohmann::json out = nlohmann::json::array();
  const EngineOptions engine{.kv = o.kv, .cache_bytes = 0};
  const auto add = [&](const char* kind, const Served& served) {
    const double rate = static_cast<double>(served.answer_tokens) / served.seconds;
    out.push_back({{"kind", kind},
                   {"requests", served.requests},
                   {"threads", context.threads.size()},
                   {"prompt_tokens", served.prompt_tokens},
                   {"tok_s", rate},
                   {"largest_gap_ms", 1e3 * served.largest_gap},
                   {"seconds", served.seconds}});
    if (o.json) return;
    std::printf("%-8s %7d %7zu requests, %5zu prompt tokens: %7.1f tokens/s, largest gap %6.1f ms, %6.2f s\n",
                kind, context.threads.size(), served.requests, served.prompt_tokens, rate,
                1e3 * served.largest_gap, served.seconds);
    std::fflush(stdout);
  };
  for (const std::size_t requests : o.requests)
    add("joining", serve_joining(model, context, engine, requests, kPrompt, kAnswer));
  if (o.beside > 0)
    add("beside",
        serve_beside_prompt(model, context, engine, o.beside, std::min(kLongest, room - room / 32)));
  return out;
}

/// All combinations for one number of threads.
void measure(const BenchOptions& o, const Model& model, Context& context, std::vector<Cell>& cells) {
  const Limits limits = measure_limits(model, context);
  if (!o.json) print_limits(context.threads.size(), limits);
  SpeedTest test(model, context, o.kv);
  const auto add = [&](Cell cell) {
    cell.threads = context.threads.size();
    cell.limits = limits;
    cells.push_back(cell);
    if (!o.json) print_cell(cell);
  };
  for (const std::size_t depth : o.depth) {
    for (const std::size_t n : o.prefill)
      if (n > 0)
        add({.decode = false,
             .n = n,
             .depth = depth,
             .batch = 1,
             .threads = 0,
             .speed = test.prefill(n, depth, o.chunk, o.repeats),
             .limits = {}});
    for (const std::size_t batch : o.batch)
      for (const std::size_t n : o.decode)
        if (n > 0)
          add({.decode = true,
               .n = n,
               .depth = depth,
               .batch = batch,
               .threads = 0,
               .speed = test.decode(n, depth, batch, o.repeats),
               .limits = {}});
  }
}

void run(BenchOptions& o) {
  if (o.shape.empty() == o.compute.model.empty())
    fail(ML_E_ARG, "either a MODEL or --shape NAME is needed, one of them");
  if (o.threads.empty()) o.threads.push_back(usable_cores());
  const Kernels& kernels = find_forced_kernels(o.compute.isa);
  auto context = start_context(kernels, *std::max_element(o.threads.begin(), o.threads.end()));
  const Model model = open(o, *context);
  if (!o.save.empty()) save(o.save, model.bytes());
  if (!o.json) print_header(model, kernels.name);

  std::vector<Cell> cells;
  nlohmann::json served = nlohmann::json::array();
  for (const int threads : o.threads) {
    context.reset();
    context = start_context(kernels, threads);
    measure(o, model, *context, cells);
    for (auto& row : measure_engine(o, model, *context)) served.push_back(std::move(row));
  }
  if (o.json) {
    nlohmann::json report = {{"isa", kernels.name},
                             {"model", model.path()},
                             {"bytes", model.bytes().size()},
                             {"limits", nlohmann::json::array()},
                             {"prefill", nlohmann::json::array()},
                             {"decode", nlohmann::json::array()},
                             {"engine", std::move(served)}};
    for (const Cell& c : cells) {
      report[c.decode ? "decode" : "prefill"].push_back(json_of(c));
      const nlohmann::json limits = {{"threads", c.threads},
                                     {"gb_s", c.limits.bytes_s * 1e-9},
                                     {"gmac_s", c.limits.multiply_adds_s * 1e-9}};
      if (report["limits"].empty() || report["limits"].back() != limits) report["limits"].push_back(limits);
    }
    std::printf("%s\n", report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "bench", "Measure speed at depths, batch sizes and threads, beside what this machine allows");
  auto o = std::make_shared<BenchOptions>();
  const auto list = [&](const char* name, auto& values, const char* what, const CLI::Validator& allowed) {
    return command->add_option(name, values, what)->check(allowed)->delimiter(',')->allow_extra_args(false);
  };
  const auto count = CLI::Range(std::size_t{0}, std::size_t{1} << 24);
  command->add_option("model", o->compute.model, "NAME, NAME.mlb or any file of the model; or --shape");
  std::vector<std::string> shapes;
  for (const ModelShape& shape : model_shapes()) shapes.emplace_back(shape.name);
  command->add_option("--shape", o->shape,
                      fmt::format("Random weights of a published model's sizes in place of a model: {}",
                                  fmt::join(shapes, ", ")));
  command
      ->add_option_function<std::string>(
          "--type",
          [o](const std::string& type) { o->type = type == "q4_0" ? WeightType::q4_0 : WeightType::q8_0; },
          "Type of --shape's weights; q8_0")
      ->check(CLI::IsMember({"q8_0", "q4_0"}))
      ->needs("--shape");
  command->add_option("--save", o->save, "Write --shape's weights to this .mlb")
      ->check(not_empty)
      ->needs("--shape");
  list("--prefill", o->prefill, "Prompt lengths to measure; 0: none", count)->capture_default_str();
  list("--decode,-n", o->decode, "Numbers of steps to measure; 0: none", count)->capture_default_str();
  list("--depth", o->depth, "Positions that are there before", count)->capture_default_str();
  list("--batch", o->batch, "Sequences that a step of decode goes on with, each with its own history",
       CLI::Range(1, 1024))
      ->capture_default_str();
  list("--requests", o->requests,
       "Numbers of requests that join the engine at random, with prompts and answers of 64 tokens",
       CLI::Range(std::size_t{1}, std::size_t{64}));
  command
      ->add_option(
          "--beside", o->beside,
          "So many answers run while a prompt of 8,000 tokens comes in: the largest gap between their tokens")
      ->check(CLI::Range(std::size_t{1}, std::size_t{63}));
  list("-t,--threads", o->threads, "Threads; the default is one for each physical core this process may use",
       CLI::Range(1, 1024));
  command->add_option("--chunk", o->chunk, "Positions a forward call of a prefill")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 24))
      ->capture_default_str();
  command->add_option("-r,--repeats", o->repeats, "The median of this many runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", o->json, "Print JSON");
  add_kernel_options(*command, o->compute);
  add_kv_option(*command, o->kv);
  command->callback([o] { run(*o); });
}

}  // namespace krafla::cli
