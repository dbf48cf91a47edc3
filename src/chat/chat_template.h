// A chat template, ready to render conversations as transformers' apply_chat_template(tokenize=False) does,
// byte for byte.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_range.h"

namespace krafla {

/// A rendered conversation. `literal` marks what came out of the messages and not of the template, ascending,
/// never empty: given to Tokenizer::encode (EncodeOptions::literal), the template's markers become control
/// tokens and a user's "<|im_end|>" does not.
struct Prompt {
  std::string text;
  std::vector<TextRange> literal;
};

/// The texts of the tokenizer's special tokens, for templates that write them. An empty one is undefined in
/// the template.
struct SpecialTokens {
  std::string bos, eos;
};

/// What a template is given. All texts in the JSON values are a user's: they are marked literal in the
/// prompt, but for well-known roles.
struct ChatInput {
  nlohmann::ordered_json messages =
      nlohmann::ordered_json::array();  // objects with "role", "content", "tool_calls" ...
  nlohmann::ordered_json tools;         // null, or an array of JSON schemas of functions
  nlohmann::ordered_json documents;     // null, or an array of objects
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // others: enable_thinking ...
  bool add_generation_prompt = true;
  std::optional<std::tm> now;  // what strftime_now() tells; unset: the local time
};

/// Immutable and thread-safe after construction.
class ChatTemplate {
 public:
  /// `source` is a template's text or the name of a built-in one. ML_E_FORMAT for a text that is no template,
  /// with the line; ML_E_UNSUPPORTED for an unknown name.
  explicit ChatTemplate(std::string_view source, SpecialTokens tokens = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// ML_E_ARG for input that is not of the shape above or that the template itself refuses (raise_exception);
  /// ML_E_FORMAT, with the line, for a template that fails or goes beyond the limits.
  Prompt render(const ChatInput& input) const;
  /// Whether the template's text has the word: one without "tools" leaves them out of the prompt without an
  /// error.
  bool mentions(std::string_view word) const;
  /// Whether it writes the texts of a content in parts (chat/messages.h) as it writes a content that is a
  /// text. Others write them as a list looks in Python, or fail.
  bool takes_parts() const;

 private:
  struct Syntax;
  std::unique_ptr<const Syntax> syntax_;
  SpecialTokens tokens_;
};

struct BuiltinTemplate {
  std::string_view name;
  std::string_view settings, text;  // the template is both, joined
};
/// For models whose files bring no template.
std::span<const BuiltinTemplate> builtin_templates();

}  // namespace krafla
