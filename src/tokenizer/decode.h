// Token ids back to text, whole or as they come.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/tokenizer.h"

namespace krafla {

/// Returns text as tokens arrive, and holds back bytes until their UTF-8 character is complete. The returned
/// strings are valid UTF-8 wherever the tokens' bytes are. Concatenated, with that of finish() at the end,
/// they equal tokenizer.decode() of all ids.
class StreamDecoder {
 public:
  /// `tokenizer` must outlive the decoder. `skip_special` leaves control tokens out. `continues` says that
  /// the ids continue earlier ones. Then a space at the beginning is kept, which Tokenizer::decode() would
  /// remove.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false, bool continues = false)
      : tokenizer_(tokenizer),
        skip_special_(skip_special),
        continues_(continues),
        drop_space_(drops_space()) {}

  /// The text that this id completes; may be empty. ML_E_ARG for an invalid id.
  std::string push(std::int32_t id);
  /// The bytes still held back: at most 3, which are not valid UTF-8. Resets the decoder.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool drops_space() const { return !continues_ && tokenizer_.drops_first_space(); }
  bool skip_special_, continues_;
  bool drop_space_;  // still at the beginning, where a space is removed
  std::string held_;
};

}  // namespace krafla
