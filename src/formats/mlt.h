// The .mlt tokenizer file: token bytes and merge rules. Goal: whatever the bytes, an error that names the
// field or a tokenizer that keeps every promise of the format page; time and memory bounded by the file's
// size, not by the numbers in it. Non-goal: knowing how text becomes ids (src/tokenizer).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/aligned.h"
#include "base/bytes.h"

namespace krafla {

enum class MltKind : std::uint32_t { kSentencePiece = 1, kByteLevel = 2 };

// Values of Mlt::flags.
inline constexpr std::uint32_t kMltPrependBos = 1;
inline constexpr std::uint32_t kMltIgnoreMerges =
    2;  // a whole pre-token found in the vocabulary is one token
inline constexpr std::uint32_t kMltPrefixAtStart =
    4;                                       // SentencePiece: the prefix U+2581 only at the start of the text
inline constexpr std::uint32_t kMltNfc = 8;  // NFC-normalize the text between added tokens
inline constexpr std::uint32_t kMltSingleDigits = 16;  // \p{N} instead of \p{N}{1,3} in the Llama 3 regex
inline constexpr std::uint32_t kMltGpt2Regex = 32;     // the GPT-2 regex instead of the Llama 3 one
inline constexpr std::uint32_t kMltSplitDigits = 64;  // every numeric character is split off before the regex
inline constexpr std::uint32_t kMltMarksAreLetters = 128;  // \p{M} counts as a letter in the regex
inline constexpr std::uint32_t kMltNoPrefix = 256;         // SentencePiece: no prefix U+2581 at all
inline constexpr std::uint32_t kMltKnownFlags = 511;

// Values of MltToken::attr.
inline constexpr std::uint8_t kMltAdded = 1;  // matched literally in the text before anything else
inline constexpr std::uint8_t kMltByte = 2;   // a SentencePiece byte-fallback token, stored as its one byte

/// What SentencePiece pieces have for a space: U+2581.
inline constexpr std::string_view kMltSpace = "\xE2\x96\x81";

struct MltToken {
  std::string_view bytes;
  std::uint8_t attr = 0;
};

/// A rule of rank = its index: the tokens left and right, side by side, become the token merged.
struct MltMerge {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint32_t merged = 0;
};

/// What a file holds. The token bytes are views: into the parsed span, or into whatever a writer's caller
/// keeps alive.
struct Mlt {
  MltKind kind = MltKind::kByteLevel;
  std::uint32_t flags = 0;
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  AlignedVector<MltToken> tokens;
  AlignedVector<MltMerge> merges;
  std::size_t trailing = 0;  // bytes after the last merge: allowed, shown by `inspect`, not written
};

/// Reads and validates `bytes`; `name` is the file's name for messages. The result views `bytes`, which must
/// outlive it. ML_E_FORMAT for everything the format page and its notes forbid.
Mlt parse_mlt(Bytes bytes, std::string_view name);

/// The file's bytes. ML_E_FORMAT, naming `name`, for values parse_mlt would refuse.
std::string mlt_bytes(const std::string& name, const Mlt& mlt);

/// Writes them to `path`, which appears only when complete. Also ML_E_IO if the file cannot be written.
void write_mlt(const std::string& path, const Mlt& mlt);

}  // namespace krafla
