// The tokens by id, and by their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned.h"
#include "formats/mlt.h"

namespace krafla {

/// Appends a SentencePiece piece, or text, with spaces for its U+2581.
void append_with_spaces(std::string_view piece, std::string& out);

/// Owns a packed copy of what the tokens stand for (a few MB at most, faster to search than the file): their
/// bytes, in a SentencePiece vocabulary with spaces for U+2581. Immutable and thread-safe.
class Vocabulary {
 public:
  /// `control` by id: tokens that find() must not give.
  Vocabulary(const Mlt& mlt, const std::vector<bool>& control);

  std::size_t size() const { return offsets_.size() - 1; }
  /// id must be in 0 .. size() - 1.
  std::string_view bytes(std::int32_t id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(blob_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  /// The lowest id with exactly these bytes (at least one) that text can become without being matched as an
  /// added token, or -1. Byte-level: no added token. SentencePiece: no control and no byte token, but other
  /// added ones, whose bytes merges may make.
  std::int32_t find(std::string_view bytes) const {
    return bytes.empty() || bytes.size() > longest_ ? -1 : find(key_of(bytes));
  }

  /// Bytes as the index knows them.
  struct Key {
    std::string_view bytes;
    std::uint64_t head, tail, hash;
  };
  /// Of at least one byte.
  static Key key_of(std::string_view bytes);
  /// As find() of the bytes.
  std::int32_t find(const Key& key) const {
    const std::size_t bit = key.hash >> (64 - kThereBits);
    return (there_[bit / 64] >> (bit % 64) & 1) == 0 ? -1 : index_[place(key)].id;
  }
  /// Fetches what find() will look at. Look-ups far apart in memory cost little if many are on their way at
  /// once.
  void prefetch(const Key& key) const { __builtin_prefetch(&index_[key.hash >> shift_]); }

  static constexpr std::size_t kMinLength = 3;
  /// Bit i: find() may find a token of kMinLength + i bytes at the start of `text`, which has kMinLength
  /// bytes at least. Longer tokens than 32 bits can tell are left out.
  std::uint32_t lengths(std::string_view text) const { return lengths_[lengths_slot(text)]; }

 private:
  // The first and last 8 bytes stand in the index itself: most look-ups of a piece of text touch one cache
  // line.
  struct Entry {
    std::uint64_t head = 0, tail = 0;
    std::uint32_t length = 0;
    std::int32_t id = -1;
  };
  static constexpr int kThereBits = 20, kLengthsBits = 15;  // 128 KB each: they stay in the cache
  static std::size_t lengths_slot(std::string_view text) {
    const std::uint32_t three = static_cast<std::uint8_t>(text[0]) |
                                static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[1])) << 8 |
                                static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[2])) << 16;
    return (three * 0x9E3779B1u) >> (32 - kLengthsBits);
  }
  std::size_t place(const Key& key) const;
  void insert(const Key& key, std::int32_t id);

  std::string blob_;
  std::vector<std::size_t> offsets_;  // size() + 1
  AlignedVector<Entry> index_;
  int shift_ = 0;
  std::vector<std::uint64_t> there_;    // a bit for each hash: most strings that are no token are known by it
  std::vector<std::uint32_t> lengths_;  // by the hash of the first bytes
  std::size_t longest_ = 0;
};

}  // namespace krafla
