#include "tokenizer/decode.h"

#include <utility>

#include "tokenizer/unicode.h"

namespace krafla {

void Tokenizer::check_id(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocab_size())
    fail(ML_E_ARG, "token id {} is not in the vocabulary, whose ids are 0 to {}", id,
         static_cast<std::int64_t>(vocab_size()) - 1);
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  check_id(id);
  return vocabulary_.bytes(id);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text;
  for (const std::int32_t id : ids)
    if (!is_control(id) || !skip_special) text += token_bytes(id);
  if (drops_first_space() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string StreamDecoder::push(std::int32_t id) {
  if (skip_special_ && tokenizer_.is_control(id)) return {};
  std::string_view bytes = tokenizer_.token_bytes(id);
  if (drop_space_ && !bytes.empty()) {
    drop_space_ = false;
    if (bytes.starts_with(' ')) bytes.remove_prefix(1);
  }
  held_ += bytes;
  std::string tail = held_.substr(held_.size() - incomplete_utf8_tail(held_));
  held_.resize(held_.size() - tail.size());
  return std::exchange(held_, std::move(tail));
}

std::string StreamDecoder::finish() {
  drop_space_ = drops_space();
  return std::exchange(held_, {});
}

}  // namespace krafla
