// Unicode normalization form C (NFC) as the tokenizers library computes it, with the tables of Unicode 9:
// characters assigned later neither decompose nor compose. Other normalization forms are not provided.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace krafla {

/// A stretch of text, bytes [begin, end), that became bytes [new_begin, new_end) of the result.
struct NormalizedStretch {
  std::size_t begin, end, new_begin, new_end;
};

/// `text` in NFC. The result is `text` itself if nothing can change, else a view of `buffer`. Any bytes are
/// legal: an invalid UTF-8 byte is kept, and nothing composes across it. Text in NFC without combining marks
/// is not copied. If `stretches` is not null, it receives the stretches that may have changed, in order; the
/// text between them is unchanged.
std::string_view to_nfc(std::string_view text, std::string& buffer,
                        std::vector<NormalizedStretch>* stretches = nullptr);

}  // namespace krafla
