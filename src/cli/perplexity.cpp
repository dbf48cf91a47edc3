// `krafla perplexity MODEL TEXT`: how well a model predicts a text, and how far it is from another
// (docs/quality.md).
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/mapped_file.h"
#include "base/pluralized.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/hint.h"
#include "cli/text.h"
#include "eval/perplexity.h"
#include "eval/windows.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ComputeOptions compute;
  TextOptions text;
  std::string base, save;
  std::size_t ctx = 0, stride = 0, windows = 0;
  ScoreOptions score;
  KvType kv = KvType::f16;
  bool json = false;
};

bool is_saved_logits(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  return starts_with(MappedFile(path).bytes(), "MLL1");
}

/// What --kl names: saved logits or another model.
class Base {
 public:
  Base(const Options& options, Context& context, const Model& model, const ScoredText& text) {
    if (is_saved_logits(options.base)) {
      file_ = MappedFile(options.base);
      saved_ = parse_mll(file_.bytes(), options.base);
      check_same_text(saved_.text, text, options.base);
      rows_ = std::make_unique<SavedRows>(saved_);
      return;
    }
    loaded_.emplace(load_model(options.base, options.compute, context.threads));
    check_model(options, model, text);
    rows_ = std::make_unique<ModelRows>(loaded_->model, context, options.kv);
  }

  RowSource& rows() { return *rows_; }
  /// Of the other model; empty for saved logits.
  ModelFiles files() const { return loaded_ ? loaded_->files : ModelFiles(); }

 private:
  /// The same ids must mean the same to both.
  void check_model(const Options& options, const Model& model, const ScoredText& text) {
    const ModelFiles& files = loaded_->files;
    const MlbHeader& header = loaded_->model.header();
    if (header.vocab != model.header().vocab)
      fail(ML_E_SHAPE, "{}: vocab is {}; allowed: {}, as in {}", files.mlb, header.vocab,
           model.header().vocab, model.path());
    if (text.windows.ctx > header.max_seq)
      fail(ML_E_ARG, "a window of {} was asked for; the max_seq of {} is {}",
           pluralized(text.windows.ctx, "token"), files.mlb, header.max_seq);
    std::error_code ignored;
    if (!std::filesystem::exists(files.mlt, ignored) || options.text.text == "-") return;
    const TokenizedText other = read_text({.text = options.text.text, .tokenizer = ""}, *loaded_);
    if (other.ids.size() < text.ids.size() ||
        !std::equal(text.ids.begin(), text.ids.end(), other.ids.begin()) || other.bos != text.bos)
      fail(ML_E_SHAPE,
           "{}: makes other tokens of {} than the tokenizer of {}; their logits cannot be compared",
           files.mlt, options.text.text, model.path());
  }

  MappedFile file_;
  Mll saved_;
  std::optional<LoadedModel> loaded_;
  std::unique_ptr<RowSource> rows_;
};

ScoredText scored_text(const TokenizedText& text, const Options& options, const Model& model) {
  const std::size_t ctx = window_size(options.ctx, model);
  if (ctx > model.header().max_seq)
    fail(ML_E_ARG, "a window of {} was asked for; the model's max_seq is {} (--ctx)",
         pluralized(ctx, "token"), model.header().max_seq);
  const Windows windows =
      with_hint({ML_E_ARG}, "take a longer text, or other windows (--ctx, --stride)",
                [&] { return cut_text(text.ids.size(), ctx, options.stride, options.windows); });
  return {text.vocab, windows, text.bos, std::span(text.ids).first(windows.n_ids)};
}

/// The error of an estimate as it is shown; of a single value there is none.
std::string shown_error(double error, int digits) {
  return std::isnan(error) ? "?" : fmt::format("{:.{}f}", error, digits);
}

/// An unknown error becomes null.
Json json_of(const Estimate& e) { return {{"value", e.value}, {"error", e.error}}; }

void print_json(const ScoredText& text, const Estimate& ppl, const Scores& scores) {
  Json report{{"ctx", text.windows.ctx},
              {"stride", text.windows.stride},
              {"windows", text.windows.count},
              {"tokens", scores.nll.size()},
              {"ppl", json_of(ppl)}};
  if (!scores.kl.empty()) {
    const Divergence d = summarize(scores);
    report["base_ppl"] = json_of(d.base_ppl);
    report["ppl_ratio"] = json_of(d.ppl_ratio);
    report["kl"] = {{"mean", d.kl.value}, {"error", d.kl.error}, {"median", d.median}, {"q90", d.q90},
                    {"q95", d.q95},       {"q99", d.q99},        {"q99.9", d.q999},    {"max", d.max}};
    report["mean_dp"] = json_of(d.mean_dp);
    report["rms_dp"] = json_of(d.rms_dp);
    report["same_top"] = json_of(d.same_top);
  }
  std::printf("%s\n", report.dump().c_str());
}

void print_text(const ScoredText& text, const Estimate& ppl, const Scores& scores) {
  std::string out =
      fmt::format("PPL = {:.4f} ± {}   ({} of {} tokens, {} scored)\n", ppl.value, shown_error(ppl.error, 5),
                  pluralized(text.windows.count, "window"), text.windows.ctx, scores.nll.size());
  if (!scores.kl.empty()) {
    const Divergence d = summarize(scores);
    const auto percent = [](const Estimate& e) { return Estimate{100 * e.value, 100 * e.error}; };
    const std::pair<const char*, Estimate> estimates[] = {
        {"PPL of the base", d.base_ppl},      {"PPL ratio", d.ppl_ratio},
        {"mean Δp, %", percent(d.mean_dp)},   {"RMS Δp, %", percent(d.rms_dp)},
        {"same top, %", percent(d.same_top)}, {"KL mean", d.kl}};
    for (const auto& [name, e] : estimates)
      out += fmt::format("{:<16}{:>12.6f} ± {}\n", name, e.value, shown_error(e.error, 6));
    const std::pair<const char*, double> quantiles[] = {{"KL median", d.median}, {"KL 90 %", d.q90},
                                                        {"KL 95 %", d.q95},      {"KL 99 %", d.q99},
                                                        {"KL 99.9 %", d.q999},   {"KL max", d.max}};
    for (const auto& [name, value] : quantiles) out += fmt::format("{:<16}{:>12.6f}\n", name, value);
  }
  std::fputs(out.c_str(), stdout);
}

void run(Options& options) {
  const auto context = make_context(options.compute);
  LoadedModel loaded = load_model(options.compute.model, options.compute, context->threads);
  const Model& model = loaded.model;
  const TokenizedText tokens = read_text(options.text, loaded);
  const ScoredText text = scored_text(tokens, options, model);
  std::optional<Base> base;
  if (!options.base.empty()) base.emplace(options, *context, model, text);
  std::optional<MllWriter> writer;
  if (!options.save.empty()) {
    check_not_input("--save-logits", options.save, loaded.files, {options.text.text, options.text.tokenizer});
    if (base) check_not_input("--save-logits", options.save, base->files(), {options.base});
    with_hint({ML_E_ARG}, "take fewer windows (--chunks)", [&] { writer.emplace(options.save, text); });
  }
  ModelRows rows(model, *context, options.kv);
  Scores scores;
  {
    ProgressLine line;
    options.score.progress = [&](std::size_t done, double ppl) {
      line.show(
          fmt::format("{} of {}, PPL so far {:.4f}", done, pluralized(text.windows.count, "window"), ppl));
    };
    scores = score_text(text, rows, base ? &base->rows() : nullptr, writer ? &*writer : nullptr,
                        context->threads, options.score);
  }
  if (writer) writer->commit();
  (options.json ? print_json : print_text)(text, exp_of(mean_of(scores.nll)), scores);
}

}  // namespace

void add_perplexity(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "perplexity", "Measure how well a model predicts a text, and how far it is from another");
  auto options = std::make_shared<Options>();
  const auto count = CLI::Range(std::size_t{1}, std::size_t{1} << 24);
  add_compute_options(*command, options->compute);
  add_text_options(*command, options->text);
  command
      ->add_option(
          "--ctx", options->ctx,
          "Tokens of a window; the later half is scored; 512, or the model's max_seq if that is less")
      ->check(CLI::Range(kMinWindow, kMaxWindow));
  command
      ->add_option(
          "--stride", options->stride,
          "Let windows slide by so many tokens: every token is scored once, with ctx - stride before it")
      ->check(count);
  add_window_options(*command, options->windows, options->score.batch);
  command
      ->add_option("--kl", options->base,
                   "Also compare with this model, or with the logits another run has saved")
      ->check(not_empty);
  command
      ->add_option("--save-logits", options->save,
                   "Write the logits of the scored positions to this file (4 bytes × vocab each)")
      ->check(not_empty);
  add_kv_option(*command, options->kv);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
