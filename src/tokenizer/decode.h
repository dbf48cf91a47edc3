// Token ids back to text, whole or as they come.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/tokenizer.h"

namespace krafla {

/// Gives text as tokens arrive, holding back bytes until their UTF-8 character is complete: what it returns
/// is UTF-8 wherever the tokens' bytes are. All returned strings, finish() included, joined are exactly
/// tokenizer.decode() of all ids.
class StreamDecoder {
 public:
  /// `tokenizer` must outlive it. `skip_special` leaves control tokens out. `continues`: the ids go on from
  /// others before them, so that no space is taken away from the beginning (where Tokenizer::decode would).
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false, bool continues = false)
      : tokenizer_(tokenizer),
        skip_special_(skip_special),
        continues_(continues),
        drop_space_(drops_space()) {}

  /// The text that became complete with this id; may be empty. ML_E_ARG for an id that is none.
  std::string push(std::int32_t id);
  /// What is still held back: at most 3 bytes, which are not UTF-8. The decoder is as new afterwards.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool drops_space() const { return !continues_ && tokenizer_.drops_first_space(); }
  bool skip_special_, continues_;
  bool drop_space_;  // still at the beginning, where a space is taken away
  std::string held_;
};

}  // namespace krafla
