// A tokenizer.json of Hugging Face's tokenizers library, and what stands beside it, as a .mlt and the JSON
// beside a model. Goal: the ids of the library for every text, or a refusal that names the rule the .mlt's
// flags cannot express. Non-goals: Unigram, WordPiece, any regex but the four the runtime has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convert/converted_tokenizer.h"

namespace krafla {

/// The files' texts; empty: there is no such file. A plain struct, so that tests need no files.
struct HfTokenizer {
  std::string file;                // the tokenizer.json's path, for messages
  std::string name;                // the model's, for the JSON; may be empty
  std::string tokenizer;           // tokenizer.json
  std::string tokenizer_config;    // tokenizer_config.json: bos, eos, add_bos_token, chat_template
  std::string special_tokens_map;  // special_tokens_map.json: bos and eos where tokenizer_config has none
  std::string generation_config;   // generation_config.json: ids that end a turn, sampling
  std::string config;              // config.json: ids that end a turn
  std::string chat_template;       // chat_template.jinja, which wins over tokenizer_config's
  std::vector<std::pair<std::string, std::string>> more_templates;  // additional_chat_templates/NAME.jinja
};

/// The files of `path`: a folder, or a tokenizer.json in one. ML_E_IO for a missing tokenizer.json or one
/// that cannot be read.
HfTokenizer read_hf_tokenizer(const std::string& path);

/// ML_E_UNSUPPORTED, naming it, for a rule the .mlt cannot express; ML_E_FORMAT for a file that is broken.
/// Added tokens at the end whose ids are `model_vocab` or above, for which the model has no row, are left out
/// (Gemma 3's image token).
ConvertedTokenizer convert_hf_tokenizer(const HfTokenizer& source, std::size_t model_vocab = SIZE_MAX);

}  // namespace krafla
