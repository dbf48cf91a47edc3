// `krafla imatrix MODEL TEXT`: which input channels of the matrices carry large values, for `krafla convert`.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/text.h"
#include "engine/model_files.h"
#include "eval/importance.h"

namespace krafla::cli {
namespace {

struct Options {
  ComputeOptions compute;
  TextOptions text;
  std::string out;
  ImportanceOptions importance;
};

void run(Options& options) {
  const auto context = make_context(options.compute);
  const Model model = open_model(options.compute, *context);
  std::string out = options.out;
  if (out.empty()) {
    out = find_model_files(options.compute.model).mlb;
    out.replace(out.size() - 3, 3, "mli");
  }
  check_not_input("--out", out, {options.text.text, model.path()});
  Mli sums = start_importance(model, out);
  const TokenizedText text = read_text(options.text, options.compute.model, model);
  options.importance.bos = text.bos;
  {
    ProgressLine line;
    options.importance.progress = [&](std::size_t done, std::size_t count) { line.show(fmt::format("{} of {} windows", done, count)); };
    measure_importance(model, *context, text.ids, options.importance, sums);
  }
  write_mli(out, sums);
  std::fprintf(stderr, "%s: %zu layers, %llu tokens\n", out.c_str(), std::size_t{sums.n_layers},
               static_cast<unsigned long long>(sums.layer_tokens));
}

}  // namespace

void add_imatrix(CLI::App& app) {
  CLI::App* command = app.add_subcommand("imatrix", "Measure which input channels matter, for convert --imatrix");
  auto options = std::make_shared<Options>();
  const auto count = CLI::Range(std::size_t{1}, std::size_t{1} << 24);
  add_compute_options(*command, options->compute);
  add_text_options(*command, options->text);
  command->add_option("-o,--out", options->out, "The .mli file to write; the default is beside the model");
  command->add_option("--ctx", options->importance.ctx, "Tokens of a window; each starts anew")->check(count)->capture_default_str();
  command->add_option("--chunks", options->importance.windows, "Windows at most; the default is the whole text")->check(count);
  command->add_option("--batch", options->importance.batch, "Tokens a forward call; does not change a bit of the result")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
      ->capture_default_str();
  add_kv_option(*command, options->importance.kv);
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
