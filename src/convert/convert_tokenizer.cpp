#include "convert/convert_tokenizer.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "convert/gguf_files.h"
#include "convert/gguf_tokenizer.h"
#include "convert/hf_tokenizer.h"
#include "convert/outputs.h"

namespace krafla {

namespace fs = std::filesystem;

ConvertedTokenizer read_tokenizer(const std::string& source) {
  std::error_code ignored;
  if (fs::is_directory(source, ignored) || source.ends_with(".json"))
    return convert_hf_tokenizer(read_hf_tokenizer(source));
  const MappedFile file(source);
  if (!starts_with(file.bytes(), "GGUF"))
    fail(ML_E_FORMAT, "{}: is neither a folder nor a tokenizer.json nor a GGUF file", source);
  return convert_gguf_tokenizer(read_gguf_tokenizer(GgufFiles(source, file.bytes()).gguf()));
}

TokenizerPaths tokenizer_paths(const std::string& source, const std::string& out) {
  const bool named_by_folder = last_name(source) == "tokenizer.json";
  fs::path name = last_name(named_by_folder ? fs::absolute(source).parent_path().string() : source);
  if (name.extension() == ".gguf" || name.extension() == ".json") name.replace_extension();
  const std::string stem = output_stem(name.string(), out);
  return {stem + ".mlt", stem + ".json"};
}

TokenizerFiles::TokenizerFiles(const ConvertedTokenizer& tokenizer, const TokenizerPaths& paths)
    : mlt_(paths.mlt), json_(paths.json) {
  const std::string bytes = mlt_bytes(paths.mlt, tokenizer.mlt);
  mlt_.write(bytes.data(), bytes.size());
  json_.write(tokenizer.json.data(), tokenizer.json.size());
}

void write_tokenizer(const ConvertedTokenizer& tokenizer, const std::string& source,
                     const TokenizerPaths& paths) {
  const fs::path from = source;
  std::error_code ignored;
  std::vector<std::string> inputs = checkpoint_files(fs::is_directory(from, ignored) ? source
                                                     : from.has_parent_path() ? from.parent_path().string()
                                                                              : ".");
  inputs.push_back(source);
  const std::string outputs[] = {paths.mlt, paths.json};
  refuse_overwriting(outputs, inputs);
  TokenizerFiles files(tokenizer, paths);
  OutputFile::commit_together(files.files());
}

}  // namespace krafla
