#include "convert/convert_tokenizer.h"

#include <cstring>
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
  if (fs::is_directory(source, ignored) || source.ends_with(".json")) return convert_hf_tokenizer(read_hf_tokenizer(source));
  const MappedFile file(source);
  if (file.bytes().size() < 4 || std::memcmp(file.bytes().data(), "GGUF", 4) != 0)
    fail(ML_E_FORMAT, "{}: is neither a folder nor a tokenizer.json nor a GGUF file", source);
  return convert_gguf_tokenizer(read_gguf_tokenizer(GgufFiles(source, file.bytes()).gguf()));
}

TokenizerPaths tokenizer_paths(const std::string& source, const std::string& out) {
  std::error_code ignored;
  fs::path from = fs::absolute(source, ignored).lexically_normal();
  if (from.filename() == "tokenizer.json" || !from.has_filename()) from = from.parent_path();
  fs::path name = from.filename();
  if (name.extension() == ".gguf" || name.extension() == ".json") name.replace_extension();
  fs::path base = out;
  if (out.empty())
    base = name;
  else if (out.ends_with('/') || fs::is_directory(base, ignored))
    base /= name;
  else if (base.extension() == ".mlt")
    base.replace_extension();
  return {base.string() + ".mlt", base.string() + ".json"};
}

TokenizerFiles::TokenizerFiles(const ConvertedTokenizer& tokenizer, const TokenizerPaths& paths) : mlt_(paths.mlt), json_(paths.json) {
  const std::string bytes = mlt_bytes(paths.mlt, tokenizer.mlt);
  mlt_.write(bytes.data(), bytes.size());
  json_.write(tokenizer.json.data(), tokenizer.json.size());
}

void write_tokenizer(const ConvertedTokenizer& tokenizer, const std::string& source, const TokenizerPaths& paths) {
  const fs::path from = source;
  std::error_code ignored;
  std::vector<std::string> inputs = checkpoint_files(fs::is_directory(from, ignored) ? source
                                                     : from.has_parent_path()        ? from.parent_path().string()
                                                                                     : ".");
  inputs.push_back(source);
  const std::string outputs[] = {paths.mlt, paths.json};
  refuse_overwriting(outputs, inputs);
  TokenizerFiles files(tokenizer, paths);
  OutputFile::commit_together(files.files());
}

}  // namespace krafla
