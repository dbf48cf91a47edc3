#include "convert/converted_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "chat/chat_template.h"
#include "formats/gguf.h"  // printable
#include "tokenizer/unicode.h"

namespace krafla {
namespace {

/// GPT-2's printable characters: those of Latin-1 stand for their byte, the others for U+0100, U+0101 ... in
/// order. By code point; -1: none.
std::array<int, 0x144> printable_to_byte() {
  std::array<int, 0x144> table;
  table.fill(-1);
  std::size_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    table[itself ? static_cast<std::size_t>(b) : next++] = b;
  }
  return table;
}

}  // namespace

char* unprintable(std::string_view text, char* out) {
  static const auto kTable = printable_to_byte();
  while (!text.empty()) {
    const Utf8Char c = read_utf8(text);
    if (!c.valid || c.code >= kTable.size() || kTable[c.code] < 0) return nullptr;
    *out++ = static_cast<char>(kTable[c.code]);
    text.remove_prefix(c.length);
  }
  return out;
}

std::optional<std::uint8_t> byte_piece(std::string_view text) {
  std::uint8_t value = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  const bool lower = text[3] >= 'a' || text[4] >= 'a';
  return end == text.data() + 5 && error == std::errc() && !lower ? std::optional(value) : std::nullopt;
}

void note_templates(const nlohmann::ordered_json& json, std::vector<std::string>& notes) {
  const auto it = json.find("chat_template");
  if (it == json.end()) return;
  const auto check = [&](const std::string& name, const nlohmann::ordered_json& text) {
    try {
      const ChatTemplate parsed(text.get_ref<const std::string&>());
    } catch (const Error& e) {
      notes.push_back(fmt::format("{} cannot be used, answers need another: {}", name, printable(e.what())));
    }
  };
  if (it->is_string()) return check("chat_template", *it);
  for (const auto& [name, text] : it->items())
    check(fmt::format("chat_template \"{}\"", printable(name)), text);
}

void add_token_ids(nlohmann::ordered_json& json, const Mlt& mlt, const std::vector<bool>& control,
                   std::set<std::int32_t> ends) {
  static constexpr std::string_view kEnds[] = {"<|im_end|>",      "<|eot_id|>",    "<|eom_id|>",
                                               "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>"};
  std::vector<std::size_t> controls;
  bool opens = false, closes = false;
  for (std::size_t id = 0; id < mlt.tokens.size(); ++id) {
    const MltToken& token = mlt.tokens[id];
    if (control[id]) controls.push_back(id);
    if (control[id] && std::find(std::begin(kEnds), std::end(kEnds), token.bytes) != std::end(kEnds))
      ends.insert(static_cast<std::int32_t>(id));
    opens |= token.attr == kMltAdded && token.bytes == "<think>";
    closes |= token.attr == kMltAdded && token.bytes == "</think>";
  }
  if (mlt.eos >= 0) ends.insert(mlt.eos);
  ends.erase(-1);
  if (mlt.bos >= 0) json["bos"] = mlt.bos;
  json["end_ids"] = ends;
  json["control_ids"] = controls;
  if (opens && closes) json["reasoning"] = {{"open", "<think>"}, {"close", "</think>"}};
}

}  // namespace krafla
