// `krafla compare MODEL SOURCE`: how far each tensor of a .mlb is from the checkpoint it was made from.
#include "convert/compare.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/compute.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, source;
  int threads = 0;
  bool json = false;
};

std::string table(const std::vector<TensorError>& errors) {
  std::string out;
  for (const TensorError& e : errors)
    out += fmt::format("{:<28} {:<5} {:>12} weights   error {:>8.4f} %   largest {:<10.4g} cosine {:.8f}\n",
                       e.name, e.type, e.weights, 100 * e.relative_rms, e.max_error, e.cosine);
  return out;
}

Json json_of(const std::vector<TensorError>& errors) {
  Json list = Json::array();
  for (const TensorError& e : errors) {
    Json j{{"name", e.name},           {"type", e.type},
           {"weights", e.weights},     {"relative_rms", e.relative_rms},
           {"max_error", e.max_error}, {"cosine", e.cosine}};
    if (!e.source.empty()) j["source"] = e.source;
    list.push_back(std::move(j));
  }
  return list;
}

void print(const Comparison& c, bool json) {
  std::string out;
  if (json) {
    const Json report{{"header", c.header},
                      {"shapes", c.shapes},
                      {"unequal", c.unequal},
                      {"tensors", json_of(c.tensors)},
                      {"classes", json_of(c.classes)}};
    out = report.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  } else {
    out = table(c.tensors);
    if (!c.classes.empty()) out += "\nover all layers\n" + table(c.classes);
    for (const auto* lines : {&c.header, &c.shapes})
      for (const std::string& line : *lines) out += fmt::format("differs: {}\n", line);
    for (const std::string& name : c.unequal)
      out += fmt::format("differs: {} is F32 and not the source's, bit for bit\n", name);
  }
  std::fputs(out.c_str(), stdout);
}

void run(const Options& options) {
  const std::string model = find_model_files(options.model).mlb;
  const int threads = options.threads > 0 ? options.threads : usable_cores();
  const Comparison comparison = compare_model(model, options.source, threads, find_forced_kernels(""));
  print(comparison, options.json);
  if (!comparison.same_model())
    fail(ML_E_ERROR, "{}: is not made of {}: {} tensors have another shape, {} F32 tensors other values",
         model, options.source, comparison.shapes.size(), comparison.unequal.size());
}

}  // namespace

void add_compare(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compare", "Show how far each tensor of a model is from the checkpoint it was made from");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "NAME, NAME.mlb or any file of the model")->required();
  command->add_option("source", options->source, "The GGUF file or the Hugging Face folder")->required();
  command
      ->add_option("-t,--threads", options->threads,
                   "Threads; the default is one for each physical core this process may use")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
