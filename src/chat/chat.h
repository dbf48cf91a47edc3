// Messages to prompt text. For now the one built-in template, SmolLM2's ChatML; a template engine takes its place behind the same
// function: template text in, prompt text out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krafla {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

/// Bytes [first, second) of a text.
using TextRange = std::pair<std::size_t, std::size_t>;

/// A rendered conversation. `literal` marks what came out of the messages and not of the template, ascending, never empty: given to
/// Tokenizer::encode (EncodeOptions::literal), the template's markers become control tokens and a user's "<|im_end|>" does not.
struct Prompt {
  std::string text;
  std::vector<TextRange> literal;
};

/// Renders `messages`. `chat_template` is a template's text (of the JSON beside the model) or the name of a built-in one ("smollm").
/// `add_generation_prompt` ends the text with the opening of the assistant's answer. Any bytes are legal in roles and contents.
/// ML_E_UNSUPPORTED for a template this build does not know, naming --raw as the way around it.
Prompt render_chat(std::string_view chat_template, std::span<const Message> messages, bool add_generation_prompt);

}  // namespace krafla
