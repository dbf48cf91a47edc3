// `krafla imatrix MODEL TEXT`: which input channels of the matrices carry large values, for `krafla convert`.
#include <cstdio>
#include <memory>

#include "base/output_file.h"
#include "base/pluralized.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/text.h"
#include "eval/importance.h"

namespace krafla::cli {
namespace {

struct Options {
  ComputeOptions compute;
  TextOptions text;
  std::string out;
  std::size_t ctx = 0;
  ImportanceOptions importance;
};

void run(Options& options) {
  const auto context = make_context(options.compute);
  LoadedModel loaded = load_model(options.compute.model, options.compute, context->threads);
  const Model& model = loaded.model;
  Mli sums = start_importance(model);
  const std::string out = options.out.empty() ? model_stem(loaded.files.mlb) + ".mli" : options.out;
  check_not_input("--out", out, loaded.files, {options.text.text, options.text.tokenizer});
  OutputFile file(out);
  const TokenizedText text = read_text(options.text, loaded);
  options.importance.bos = text.bos;
  options.importance.ctx = window_size(options.ctx, model);
  {
    ProgressLine line;
    options.importance.progress = [&](std::size_t done, std::size_t count) {
      line.show(fmt::format("{} of {}", done, pluralized(count, "window")));
    };
    measure_importance(model, *context, text.ids, options.importance, sums);
  }
  write_mli(file, out, sums);
  std::fprintf(stderr, "%s: %s, %s\n", out.c_str(), pluralized(sums.n_layers, "layer").c_str(),
               pluralized(sums.layer_tokens, "token").c_str());
}

}  // namespace

void add_imatrix(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("imatrix", "Measure which input channels matter, for convert --imatrix");
  auto options = std::make_shared<Options>();
  const auto count = CLI::Range(std::size_t{1}, std::size_t{1} << 24);
  add_compute_options(*command, options->compute);
  add_text_options(*command, options->text);
  command->add_option("-o,--out", options->out, "The .mli file to write; the default is beside the model")
      ->check(not_empty);
  command
      ->add_option("--ctx", options->ctx,
                   "Tokens of a window; each starts anew; 512, or the model's max_seq if that is less")
      ->check(count);
  add_window_options(*command, options->importance.windows, options->importance.batch);
  add_kv_option(*command, options->importance.kv);
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
