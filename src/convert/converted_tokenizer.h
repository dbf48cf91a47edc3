// What the two sources of a tokenizer (GGUF, tokenizer.json) have in common: the result, and the JSON that
// stands beside a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/mlt.h"

namespace krafla {

/// A tokenizer ready for write_mlt, and the text of NAME.json.
struct ConvertedTokenizer {
  std::unique_ptr<char[]> bytes;  // what mlt's tokens view
  Mlt mlt;
  std::string json;                // pretty-printed UTF-8 with a newline at its end
  std::vector<std::string> notes;  // what was found wrong but converted, or left out: a line each
};

/// The bytes that a byte-level token's characters, GPT-2's printable alphabet, stand for, written to `out`,
/// which has room for text.size() of them. Returns one past the last; nullptr if a character stands for no
/// byte.
char* unprintable(std::string_view text, char* out);

/// XX of a SentencePiece byte token "<0xXX>"; nothing for any other text.
std::optional<std::uint8_t> byte_piece(std::string_view text);

/// A note for each template of `json` that the engine cannot run, with the line: it is converted as it is.
void note_templates(const nlohmann::ordered_json& json, std::vector<std::string>& notes);

/// What of the JSON follows from the tokens: `json`, which has the keys before them, gets bos, end_ids (the
/// ids given, and control tokens that end a turn or a text in any model that has them), control_ids and
/// reasoning.
void add_token_ids(nlohmann::ordered_json& json, const Mlt& mlt, const std::vector<bool>& control,
                   std::set<std::int32_t> ends);

}  // namespace krafla
