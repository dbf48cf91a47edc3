// Normalization form C, as the tokenizers library does it: with the tables of Unicode 9. Characters assigned
// later neither decompose nor compose. Non-goal: any other form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace krafla {

/// What a stretch of text, bytes [begin, end), became: bytes [new_begin, new_end) of the result.
struct NormalizedStretch {
  std::size_t begin, end, new_begin, new_end;
};

/// `text` in NFC: itself where nothing changes, else put together in `buffer`, which the result then views.
/// Any bytes are legal; one that is not UTF-8 stays as it is and nothing composes across it. Text that is in
/// NFC without combining marks is only looked at. `stretches`, if not null, gets those that may have changed,
/// in order; all between them stayed as it was.
std::string_view to_nfc(std::string_view text, std::string& buffer,
                        std::vector<NormalizedStretch>* stretches = nullptr);

}  // namespace krafla
