#include "convert/convert_tokenizer.h"

#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "convert/gguf_tokenizer.h"
#include "convert/hf_tokenizer.h"

namespace krafla {

namespace fs = std::filesystem;

ConvertedTokenizer read_tokenizer(const std::string& source) {
  std::error_code ignored;
  if (fs::is_directory(source, ignored) || source.ends_with(".json")) return convert_hf_tokenizer(read_hf_tokenizer(source));
  const MappedFile file(source);
  if (file.bytes().size() < 4 || std::memcmp(file.bytes().data(), "GGUF", 4) != 0)
    fail(ML_E_FORMAT, "{}: is neither a folder nor a tokenizer.json nor a GGUF file", source);
  return convert_gguf_tokenizer(read_gguf_tokenizer(parse_gguf(file.bytes(), source)));
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

void write_tokenizer(const ConvertedTokenizer& tokenizer, const TokenizerPaths& paths) {
  const std::string bytes = mlt_bytes(paths.mlt, tokenizer.mlt);
  OutputFile mlt(paths.mlt), json(paths.json);
  mlt.write(bytes.data(), bytes.size());
  json.write(tokenizer.json.data(), tokenizer.json.size());
  mlt.commit();
  json.commit();
}

}  // namespace krafla
