#include "convert/convert.h"

#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "convert/arch/registry.h"
#include "convert/convert_tokenizer.h"
#include "convert/gguf_files.h"
#include "convert/gguf_tokenizer.h"
#include "convert/hf_tokenizer.h"
#include "convert/outputs.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

/// One clear line for what is no GGUF.
void refuse_other_sources(const std::string& source, Bytes bytes) {
  if (starts_with(bytes, "GGUF")) return;
  if (starts_with(bytes, "MLB1"))
    fail(ML_E_FORMAT, "{}: is a .mlb model already; a GGUF file or a checkpoint's folder is needed", source);
  if (starts_with(bytes, "MLT1") || starts_with(bytes, "MLI1"))
    fail(ML_E_FORMAT, "{}: is a .mlt or .mli file; a GGUF file or a checkpoint's folder is needed", source);
  const fs::path path = source;
  if (path.extension() == ".safetensors" || path.extension() == ".json")
    fail(ML_E_FORMAT, "{}: is a part of a checkpoint; give the folder it is in", source);
  fail(ML_E_FORMAT, "{}: is no GGUF file (its first bytes are not \"GGUF\")", source);
}

/// What a plan says, written; with a tokenizer all three files.
ConvertSummary write_model(ModelPlan plan, const std::optional<ConvertedTokenizer>& tokenizer,
                           const std::string& source, const ModelPaths& paths,
                           const ConvertOptions& options) {
  plan.source = source;
  std::optional<TokenizerFiles>
      companions;  // written before the weights: what cannot be is refused before any work
  std::error_code ignored;
  if (tokenizer) {
    plan.notes.insert(plan.notes.end(), tokenizer->notes.begin(), tokenizer->notes.end());
    if (tokenizer->mlt.tokens.size() > plan.header.vocab)
      fail(ML_E_SHAPE, "{}: the tokenizer has {} tokens; allowed: at most the model's {} rows of embeddings",
           source, tokenizer->mlt.tokens.size(), plan.header.vocab);
    companions.emplace(*tokenizer, TokenizerPaths{paths.mlt, paths.json});
  } else {
    for (const std::string& path : {paths.mlt, paths.json})
      if (fs::exists(path, ignored))
        plan.notes.push_back(fmt::format("{} is an older file: is it this model's?", path));
  }
  ConvertSummary summary = companions ? convert_weights(plan, paths.mlb, options, companions->files())
                                      : convert_weights(plan, paths.mlb, options);
  summary.paths = paths;
  return summary;
}

/// Where to write: never one of the files that are read.
ModelPaths checked_paths(const std::string& source, const std::string& out, std::vector<std::string> inputs,
                         const ConvertOptions& options) {
  const ModelPaths paths = output_paths(source, out);
  if (!options.imatrix.empty()) inputs.push_back(options.imatrix);
  const std::string outputs[] = {paths.mlb, paths.mlt, paths.json};
  refuse_overwriting(outputs, inputs);
  return paths;
}

ConvertSummary convert_gguf(const std::string& source, const std::string& out,
                            const ConvertOptions& options) {
  const MappedFile file(source);
  refuse_other_sources(source, file.bytes());
  const GgufFiles files(source, file.bytes());
  const Gguf& gguf = files.gguf();
  const ModelPaths paths = checked_paths(source, out, files.paths(), options);
  const ModelPlan plan = gguf_family(gguf).plan_gguf(gguf, options.storage);
  std::optional<ConvertedTokenizer> tokenizer;
  if (options.tokenizer) tokenizer = convert_gguf_tokenizer(read_gguf_tokenizer(gguf));
  return write_model(plan, tokenizer, source, paths, options);
}

/// The tokenizer of a folder, or a note that there is none.
std::optional<ConvertedTokenizer> folder_tokenizer(const std::string& folder, std::size_t vocab,
                                                   std::vector<std::string>& notes) {
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / "tokenizer.json", ignored))
    return convert_hf_tokenizer(read_hf_tokenizer(folder), vocab);
  notes.emplace_back("the folder has no tokenizer.json: only the weights were converted");
  return std::nullopt;
}

ConvertSummary convert_folder(const std::string& source, const std::string& out,
                              const ConvertOptions& options) {
  const ModelPaths paths = checked_paths(source, out, checkpoint_files(source), options);
  const HfCheckpoint checkpoint(source);
  ModelPlan plan = hf_family(checkpoint).plan_hf(checkpoint, options.storage);
  std::optional<ConvertedTokenizer> tokenizer;
  if (options.tokenizer) tokenizer = folder_tokenizer(source, plan.header.vocab, plan.notes);
  return write_model(plan, tokenizer, source, paths, options);
}

}  // namespace

ModelPaths output_paths(std::string_view source, std::string_view out) {
  const std::string path(source);
  std::error_code ignored;
  std::string name =
      fs::is_directory(path, ignored) ? last_name(path) : gguf_model_name(fs::path(path).filename().string());
  if (name.empty()) name = "model";
  const std::string stem = output_stem(name, out);
  return {stem + ".mlb", stem + ".mlt", stem + ".json"};
}

ConvertSummary convert_model(const std::string& source, const std::string& out,
                             const ConvertOptions& options) {
  const auto start = Clock::now();
  std::error_code ignored;
  ConvertSummary summary = fs::is_directory(source, ignored) ? convert_folder(source, out, options)
                                                             : convert_gguf(source, out, options);
  summary.seconds = seconds_since(start);
  return summary;
}

}  // namespace krafla
