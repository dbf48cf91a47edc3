// A tokenizer alone, from any source, to NAME.mlt and NAME.json.
#pragma once

#include <array>
#include <string>

#include "base/output_file.h"
#include "convert/converted_tokenizer.h"

namespace krafla {

/// `source`: a folder with a tokenizer.json, a tokenizer.json, or a GGUF file. Errors as convert_hf_tokenizer
/// and convert_gguf_tokenizer say; ML_E_FORMAT for a file that is neither.
ConvertedTokenizer read_tokenizer(const std::string& source);

struct TokenizerPaths {
  std::string mlt, json;
};
/// `out` as output_paths() takes it. A tokenizer.json has the name of its folder.
TokenizerPaths tokenizer_paths(const std::string& source, const std::string& out);

/// Both files, written completely; they appear when they are committed together.
class TokenizerFiles {
 public:
  TokenizerFiles(const ConvertedTokenizer& tokenizer, const TokenizerPaths& paths);
  std::array<OutputFile*, 2> files() { return {&mlt_, &json_}; }

 private:
  OutputFile mlt_, json_;
};

/// Writes both; on any error neither appears. ML_E_ARG if one of them is a file of `source`.
void write_tokenizer(const ConvertedTokenizer& tokenizer, const std::string& source,
                     const TokenizerPaths& paths);

}  // namespace krafla
