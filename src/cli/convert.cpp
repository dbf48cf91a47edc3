// `krafla convert SOURCE [OUT]`: a checkpoint (GGUF file or Hugging Face folder) to .mlb, .mlt and .json.
#include "convert/convert.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/interrupt.h"
#include "cli/text.h"
#include "convert/convert_tokenizer.h"

namespace krafla::cli {
namespace {

struct Arguments {
  std::string source, out;
  std::string type = "q8_0";
  std::string scales = "f16";
  std::string q4_rule, imatrix;
  std::vector<std::string> q8;
  bool no_tokenizer = false;
  bool quiet = false;
  int threads = 0;
};

/// What else than a .mlb's names of tensors people call the classes of matrices.
constexpr std::pair<std::string_view, MlbClass> kClassWords[] = {{"embed", kClassEmb},
                                                                 {"embeddings", kClassEmb},
                                                                 {"lm_head", kClassCls},
                                                                 {"output", kClassCls},
                                                                 {"classifier", kClassCls},
                                                                 {"q", kClassQk},
                                                                 {"k", kClassQk},
                                                                 {"qk", kClassQk},
                                                                 {"attn_q", kClassQk},
                                                                 {"attn_k", kClassQk},
                                                                 {"v", kClassV},
                                                                 {"attn_v", kClassV},
                                                                 {"o", kClassO},
                                                                 {"attn_output", kClassO},
                                                                 {"gate", kClassUp},
                                                                 {"up", kClassUp},
                                                                 {"ffn_gate", kClassUp},
                                                                 {"ffn_up", kClassUp},
                                                                 {"down", kClassDown},
                                                                 {"ffn_down", kClassDown}};

MlbClass class_of(std::string_view name) {
  if (const MlbTensor* tensor = find_mlb_tensor(name)) return tensor->q8_class;
  for (const auto& [word, c] : kClassWords)
    if (word == name) return c;
  return kClassNone;
}

std::uint32_t q8_mask(const std::vector<std::string>& names) {
  std::uint32_t mask = 0;
  for (const std::string& name : names) {
    const MlbClass c = class_of(name);
    if (c == kClassNone) {
      std::vector<std::string_view> known;  // a name for each class
      std::uint32_t seen = 0;
      for (const MlbTensor& t : mlb_tensors()) {
        if ((t.q8_class & ~seen) != 0) known.push_back(t.name);
        seen |= t.q8_class;
      }
      fail(ML_E_ARG, "--q8: there is no class of matrices \"{}\"; there are {}", name,
           fmt::join(known, ", "));
    }
    mask |= c;
  }
  return mask;
}

/// What the progress line shows, `seconds` after the start.
std::string progress_text(const ConvertProgress& p, double seconds) {
  const double part = static_cast<double>(p.done) / static_cast<double>(p.total);
  const double speed = static_cast<double>(p.done) / seconds;
  constexpr int kWidth = 32;
  const std::string bar(static_cast<std::size_t>(part * kWidth), '#');
  return fmt::format("[{:<{}}] {:3.0f}%  {:.0f} M weights/s  {:.0f} s left", bar, kWidth, 100 * part,
                     speed / 1e6, static_cast<double>(p.total - p.done) / speed);
}

void print_summary(const ConvertSummary& s) {
  std::fprintf(stderr, "%s: %.1f MB, %.1f M weights, %.1f s (%.0f M weights/s)\n", s.paths.mlb.c_str(),
               static_cast<double>(s.bytes) / 1e6, static_cast<double>(s.weights) / 1e6, s.seconds,
               static_cast<double>(s.weights) / s.seconds / 1e6);
  std::fprintf(stderr, "  error: RMS of the difference to the source, relative to the RMS of the weights\n");
  std::size_t width = 0;
  for (const ClassError& e : s.errors) width = std::max(width, e.name.size());
  for (const ClassError& e : s.errors)
    std::fprintf(stderr, "  %-*s  %s  %9.2f M weights, error %.3f %%\n", static_cast<int>(width),
                 e.name.c_str(), weight_type_name(e.type), static_cast<double>(e.weights) / 1e6,
                 100 * e.relative_rms);
  for (const std::string& note : s.notes) std::fprintf(stderr, "  %s\n", note.c_str());
}

/// Whether SOURCE's tokenizer can be converted.
bool has_good_tokenizer(const std::string& source) {
  try {
    read_tokenizer(source);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Converts; where it fails because of the tokenizer, --no-tokenizer is the way out.
ConvertSummary convert(const Arguments& a, const ConvertOptions& options) {
  try {
    return convert_model(a.source, a.out, options);
  } catch (const Error& e) {
    const bool source_fault = e.status() == ML_E_FORMAT || e.status() == ML_E_UNSUPPORTED;
    if (!options.tokenizer || !source_fault || has_good_tokenizer(a.source)) throw;
    fail(e.status(), "{}; --no-tokenizer converts the weights alone", e.what());
  }
}

void run(const Arguments& a) {
  ConvertOptions options;
  options.storage.type = a.type == "q4_0" ? WeightType::q4_0 : WeightType::q8_0;
  options.storage.scale_f16 = a.scales == "f16";
  options.storage.q8_mask = q8_mask(a.q8);
  if (options.storage.q8_mask != 0 && options.storage.type == WeightType::q8_0)
    fail(ML_E_ARG, "--q8 with --type q8_0: every matrix is Q8_0 already; it is for --type q4_0");
  if (!a.q4_rule.empty()) options.q4_rule = a.q4_rule == "round" ? Q4Rule::round : Q4Rule::search;
  options.imatrix = a.imatrix;
  options.tokenizer = !a.no_tokenizer;
  options.threads = a.threads > 0 ? a.threads : usable_cores();
  options.kernels = &find_forced_kernels("");
  options.cancelled = interrupted;
  const Interruptible interruptible;  // so that the temporary file goes away
  ConvertSummary summary;
  {
    ProgressLine line;
    const auto start = Clock::now();
    if (!a.quiet)
      options.progress = [&](const ConvertProgress& p) { line.show(progress_text(p, seconds_since(start))); };
    summary = convert(a, options);
  }
  if (options.storage.type == WeightType::q8_0)
    for (const auto& [option, value] : {std::pair{"--imatrix", &a.imatrix}, {"--q4-rule", &a.q4_rule}})
      if (!value->empty()) summary.notes.push_back(fmt::format("not used: {}; every matrix is Q8_0", option));
  if (!a.quiet) print_summary(summary);
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "convert", "Convert a GGUF file or a Hugging Face folder to NAME.mlb, NAME.mlt and NAME.json");
  auto a = std::make_shared<Arguments>();
  command
      ->add_option("SOURCE", a->source,
                   "the GGUF file, or the folder with config.json and .safetensors files")
      ->required()
      ->check(not_empty);
  command
      ->add_option("OUT", a->out,
                   "NAME (.mlb, .mlt or .json behind it is not part of it) or a folder; default: SOURCE's "
                   "name, in the current folder")
      ->check(not_empty);
  command->add_option("--type", a->type, "how matrices are stored")
      ->check(CLI::IsMember({"q8_0", "q4_0"}))
      ->capture_default_str();
  command->add_option("--scales", a->scales, "how block scales are stored")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  command
      ->add_option("--q8", a->q8,
                   "with --type q4_0: classes of matrices that are stored as Q8_0, separated by commas: "
                   "tok_emb, wcls, wq (wq, wk, wg; lqkv), "
                   "wv (wv; lz), wo (wo; lout), w1 (w1, w3: gate and up), w2 (down)")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is SOURCE
      ->type_name("CLASS,...");
  command
      ->add_option("--q4-rule", a->q4_rule,
                   "Q4_0: the best of 13 fits (search), or llama.cpp's rounding (round); default: search, "
                   "but round for Gemma 3 without --imatrix")
      ->check(CLI::IsMember({"search", "round"}));
  command->add_option("--imatrix", a->imatrix, "Q4_0: an importance matrix (MLI1) that weights the search")
      ->type_name("FILE")
      ->check(not_empty);
  command->add_flag("--no-tokenizer", a->no_tokenizer, "write the .mlb alone");
  command
      ->add_option("-t,--threads", a->threads,
                   "threads; the default is one for each physical core this process may use")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--quiet", a->quiet, "print nothing but errors");
  command->callback([a] { run(*a); });
}

}  // namespace krafla::cli
