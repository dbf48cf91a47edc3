// The tokenizer of a GGUF file as a .mlt, and the JSON that stands beside the model. Goal: the ids of the tokenizer.json the GGUF
// was made from. Non-goal, for now: SentencePiece vocabularies ("llama", "gemma4" ...), refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/mlt.h"

namespace krafla {

/// The metadata a tokenizer needs, as views into the GGUF; a plain struct, so that tests need no file.
struct GgufTokenizer {
  std::string file;                      // for messages
  std::string_view model;                // tokenizer.ggml.model
  std::string_view pre;                  // tokenizer.ggml.pre: names the pre-tokenizer
  std::vector<std::string_view> tokens;  // byte-level ones in GPT-2's printable characters
  std::vector<std::int64_t> types;       // per token: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; empty: all normal
  std::vector<std::string_view> merges;  // "left right"
  std::int64_t bos = -1, eos = -1;       // -1: none
  std::vector<std::int64_t> more_ends;   // eot and eom ids
  std::optional<bool> add_bos;
  std::string_view name, source, license, chat_template;  // general.*, for the JSON; may be empty
};

/// The metadata of `gguf`, which must outlive the result. ML_E_FORMAT for a key of the wrong type or missing tokens.
GgufTokenizer read_gguf_tokenizer(const Gguf& gguf);

/// A tokenizer ready for write_mlt, and the text of NAME.json.
struct ConvertedTokenizer {
  std::unique_ptr<char[]> bytes;  // what mlt's tokens view
  Mlt mlt;
  std::string json;  // pretty-printed UTF-8 with a newline at its end
};

/// ML_E_UNSUPPORTED, naming it, for a model or pre-tokenizer the .mlt's flags cannot express; ML_E_FORMAT for ids out of range,
/// tokens that are not in GPT-2's alphabet and merges of unknown tokens.
ConvertedTokenizer convert_gguf_tokenizer(const GgufTokenizer& source);

}  // namespace krafla
