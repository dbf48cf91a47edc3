// The rules of a tokenizer.json (normalizer, pre_tokenizer, decoder, post_processor, model) as a kind and
// flags of a .mlt. What the flags cannot express is refused by name.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "formats/mlt.h"

namespace krafla {

struct HfRules {
  MltKind kind = MltKind::kByteLevel;
  std::uint32_t flags = 0;       // all but kMltPrependBos
  bool normalizes = false;       // text is not what added tokens with "normalized" see
  bool splits_at_space = false;  // SentencePiece: every U+2581 begins a piece, whatever the merges say
};

/// `root` is the whole tokenizer.json, an object; `file` its name for messages. ML_E_UNSUPPORTED naming the
/// rule, ML_E_FORMAT for a field of the wrong type.
HfRules read_hf_rules(const nlohmann::json& root, const std::string& file);

/// The text of the token that the post_processor puts before every text, or "". ML_E_UNSUPPORTED if it does
/// anything else.
std::string read_hf_first_token(const nlohmann::json& root, const std::string& file);

}  // namespace krafla
