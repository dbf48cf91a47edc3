// The tokenizer of a GGUF file as a .mlt, and the JSON that stands beside the model. Goal: the ids of the
// tokenizer.json the GGUF was made from. Other models than "gpt2" (byte-level BPE) and "llama" (SentencePiece
// BPE) are refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/converted_tokenizer.h"
#include "formats/gguf.h"

namespace krafla {

/// The metadata a tokenizer needs, as views into the GGUF; a plain struct, so that tests need no file.
struct GgufTokenizer {
  std::string file;                      // for messages
  std::string_view model;                // tokenizer.ggml.model
  std::string_view pre;                  // tokenizer.ggml.pre: names the pre-tokenizer
  std::vector<std::string_view> tokens;  // byte-level ones in GPT-2's printable characters
  std::vector<std::int64_t> types;  // per token: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6
                                    // byte; empty: all normal
  std::vector<std::string_view> merges;  // "left right"
  std::vector<float> scores;     // per token, finite: what a SentencePiece vocabulary has instead of merges
  bool add_space_prefix = true;  // SentencePiece
  std::int64_t bos = -1, eos = -1;      // -1: none
  std::vector<std::int64_t> more_ends;  // eot and eom ids
  std::optional<bool> add_bos;
  std::string_view name, source, license, chat_template;  // general.*, for the JSON; may be empty
};

/// The metadata of `gguf`, which must outlive the result. ML_E_FORMAT for a key of the wrong type or missing
/// tokens.
GgufTokenizer read_gguf_tokenizer(const Gguf& gguf);

/// ML_E_UNSUPPORTED, naming it, for a model or pre-tokenizer the .mlt's flags cannot express; ML_E_FORMAT for
/// ids out of range, tokens that are not in GPT-2's alphabet and merges of unknown tokens.
ConvertedTokenizer convert_gguf_tokenizer(const GgufTokenizer& source);

}  // namespace krafla
