// Looks up tokens by id and by their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "formats/mlt.h"

namespace krafla {

/// Appends `piece`, a SentencePiece token or text, with each U+2581 replaced by a space.
void append_with_spaces(std::string_view piece, std::string& out);

/// Owns a packed copy of the tokens' bytes: a few MB at most, and faster to search than the file. In a
/// SentencePiece vocabulary each U+2581 is replaced by a space. Immutable and thread-safe.
class Vocabulary {
 public:
  /// `control`, by id: tokens that find() must not return.
  Vocabulary(const Mlt& mlt, const std::vector<bool>& control);

  std::size_t size() const { return offsets_.size() - 1; }
  /// The bytes of a token. `id` must be in 0 .. size() - 1.
  std::string_view bytes(std::int32_t id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(blob_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  /// The lowest id with exactly these bytes, or -1. Only tokens that merging may produce are found. In a
  /// byte-level vocabulary these are all but the added tokens. In a SentencePiece vocabulary they are all but
  /// control and byte tokens, because merges may produce other added tokens.
  std::int32_t find(std::string_view bytes) const {
    return bytes.empty() || bytes.size() > longest_ ? -1 : find(key_of(bytes));
  }

  /// A string prepared for the index.
  struct Key {
    std::string_view bytes;
    std::uint64_t head, tail, hash;
  };
  /// `bytes` must not be empty.
  static Key key_of(std::string_view bytes);
  /// The same as find() of the key's bytes.
  std::int32_t find(const Key& key) const {
    const std::size_t bit = key.hash >> (64 - kFilterBits);
    return (filter_[bit / 64] >> (bit % 64) & 1) == 0 ? -1 : index_[slot_of(key)].id;
  }
  /// Prefetches what find() will read. Look-ups far apart in memory cost little if many are in flight at
  /// once.
  void prefetch(const Key& key) const { __builtin_prefetch(&index_[key.hash >> shift_]); }

  static constexpr std::size_t kMinLength = 3;
  /// The possible lengths of tokens at the start of `text`, which has at least kMinLength bytes. Bit i stands
  /// for kMinLength + i bytes. Tokens too long for 32 bits are left out.
  std::uint32_t lengths(std::string_view text) const { return lengths_[lengths_slot(text)]; }

 private:
  // The index itself holds the first and the last 8 bytes, so most look-ups touch one cache line.
  struct Entry {
    std::uint64_t head = 0, tail = 0;
    std::uint32_t length = 0;
    std::int32_t id = -1;
  };
  static constexpr int kFilterBits = 20, kLengthsBits = 15;  // 128 KB each: they stay in the cache
  static std::size_t lengths_slot(std::string_view text) {
    const std::uint32_t three = static_cast<std::uint8_t>(text[0]) |
                                static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[1])) << 8 |
                                static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[2])) << 16;
    return (three * 0x9E3779B1u) >> (32 - kLengthsBits);
  }
  std::size_t slot_of(const Key& key) const;
  void insert(const Key& key, std::int32_t id);

  std::string blob_;
  std::vector<std::size_t> offsets_;  // size() + 1
  AlignedVector<Entry> index_;
  int shift_ = 0;
  std::vector<std::uint64_t> filter_;   // a bit for each hash: rejects most strings that are not tokens
  std::vector<std::uint32_t> lengths_;  // by the hash of the first kMinLength bytes
  std::size_t longest_ = 0;
};

}  // namespace krafla
