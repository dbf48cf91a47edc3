// The control tokens that a prompt becomes, by ids, with a vocabulary of the 256 bytes and the control tokens
// a test names.
#pragma once

#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace krafla {

class ControlTokens {
 public:
  explicit ControlTokens(const std::vector<std::string>& control) : tokenizer_(vocabulary(control)) {}

  /// The texts of the control tokens among the prompt's ids, in their order.
  std::vector<std::string> of(const Prompt& prompt) const {
    std::vector<std::string> found;
    for (const std::int32_t id :
         tokenizer_.encode(prompt.text, {.add_bos = false, .literal = prompt.literal}))
      if (tokenizer_.is_control(id)) found.emplace_back(tokenizer_.token_bytes(id));
    return found;
  }

 private:
  static Tokenizer vocabulary(const std::vector<std::string>& control) {
    std::string bytes;
    for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
    Mlt mlt;
    for (std::size_t i = 0; i < 256; ++i) mlt.tokens.push_back({std::string_view(bytes).substr(i, 1), 0});
    for (const std::string& text : control) mlt.tokens.push_back({text, kMltAdded});
    std::vector<std::int32_t> ids;
    for (std::size_t i = 256; i < mlt.tokens.size(); ++i) ids.push_back(static_cast<std::int32_t>(i));
    return Tokenizer(mlt, ids);
  }
  Tokenizer tokenizer_;
};

}  // namespace krafla
