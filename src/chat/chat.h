// Messages to prompt text, the short way: roles and contents. chat_template.h has all that templates can take (tools, documents ...).
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

/// The texts of the tokenizer's special tokens, for templates that write them; empty: the template sees none.
struct SpecialTokens {
  std::string bos, eos;
};

/// Renders `messages`. `chat_template` is a template's text (of the JSON beside the model) or the name of a built-in one.
/// `add_generation_prompt` ends the text with the opening of the assistant's answer. Any bytes are legal in roles and contents.
/// Errors as ChatTemplate's.
Prompt render_chat(std::string_view chat_template, std::span<const Message> messages, bool add_generation_prompt,
                   const SpecialTokens& tokens = {});

}  // namespace krafla
