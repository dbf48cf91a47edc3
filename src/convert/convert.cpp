#include "convert/convert.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "convert/arch/registry.h"
#include "convert/gguf_tokenizer.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

/// One clear line for what is no GGUF.
void refuse_other_sources(const std::string& source, Bytes bytes) {
  const auto starts = [&](const char* magic) { return bytes.size() >= 4 && std::memcmp(bytes.data(), magic, 4) == 0; };
  if (starts("GGUF")) return;
  if (starts("MLB1")) fail(ML_E_FORMAT, "{}: is a .mlb model already; a GGUF is needed", source);
  if (starts("MLT1") || starts("MLI1")) fail(ML_E_FORMAT, "{}: is a .mlt or .mli file; a GGUF is needed", source);
  fail(ML_E_FORMAT, "{}: is no GGUF file (its first bytes are not \"GGUF\")", source);
}

/// The tokenizer and the JSON beside the weights. All is converted and written before the weights, so that what cannot be expressed
/// or written is refused before any work; nothing appears before commit().
class Companions {
 public:
  Companions(const Gguf& gguf, const MlbHeader& header, const ModelPaths& paths) : mlt_(paths.mlt), json_(paths.json) {
    const ConvertedTokenizer converted = convert_gguf_tokenizer(read_gguf_tokenizer(gguf));
    if (converted.mlt.tokens.size() > header.vocab)
      fail(ML_E_SHAPE, "{}: the tokenizer has {} tokens; allowed: at most the {} rows of token_embd.weight", gguf.name,
           converted.mlt.tokens.size(), header.vocab);
    const std::string bytes = mlt_bytes(paths.mlt, converted.mlt);
    mlt_.write(bytes.data(), bytes.size());
    json_.write(converted.json.data(), converted.json.size());
  }
  void commit() {
    mlt_.commit();
    json_.commit();
  }

 private:
  OutputFile mlt_, json_;
};

}  // namespace

ModelPaths output_paths(std::string_view source, std::string_view out) {
  fs::path base = out;
  const auto without = [](fs::path p, const char* extension) { return p.extension() == extension ? p.replace_extension() : p; };
  const fs::path name = without(fs::path(source).filename(), ".gguf");
  std::error_code ignored;
  if (out.empty())
    base = name;
  else if (out.ends_with('/') || fs::is_directory(base, ignored))
    base /= name;
  else
    base = without(base, ".mlb");
  const std::string text = base.string();
  return {text + ".mlb", text + ".mlt", text + ".json"};
}

ConvertSummary convert_model(const std::string& source, const std::string& out, const ConvertOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::error_code ignored;
  if (fs::is_directory(source, ignored))
    fail(ML_E_UNSUPPORTED, "{}: is a folder; converting Hugging Face folders is not there yet, only GGUF files", source);
  const MappedFile file(source);
  refuse_other_sources(source, file.bytes());
  const Gguf gguf = parse_gguf(file.bytes(), source);
  const ModelPlan plan = gguf_family(gguf).plan(gguf, options.storage);
  const ModelPaths paths = output_paths(source, out);
  std::optional<Companions> companions;
  if (options.tokenizer) companions.emplace(gguf, plan.header, paths);
  ConvertSummary summary = convert_weights(plan, paths.mlb, options, [&] {
    if (companions) companions->commit();
  });
  summary.paths = paths;
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace krafla
