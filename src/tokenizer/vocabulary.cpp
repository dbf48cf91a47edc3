#include "tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace krafla {
namespace {

template <class T>
std::uint64_t load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// A word of the first 8 bytes, or of all bytes of a shorter string. Distinct strings of the same length up
/// to 8 give distinct words. `s` is not empty.
std::uint64_t head_of(std::string_view s) {
  const char* p = s.data();
  const std::size_t n = s.size();
  if (n >= 8) return load<std::uint64_t>(p);
  if (n >= 4) return load<std::uint32_t>(p) << 32 | load<std::uint32_t>(p + n - 4);
  return load<std::uint8_t>(p) | load<std::uint8_t>(p + n / 2) << 8 | load<std::uint8_t>(p + n - 1) << 16;
}

/// A word of the last 8 bytes; 0 for strings that head_of() holds completely.
std::uint64_t tail_of(std::string_view s) {
  return s.size() <= 8 ? 0 : load<std::uint64_t>(s.data() + s.size() - 8);
}

/// Its value affects speed only, never a result.
std::uint64_t hash(std::string_view s, std::uint64_t head, std::uint64_t tail) {
  std::uint64_t h = head * 0x9E3779B97F4A7C15u ^ (tail + s.size()) * 0xC2B2AE3D27D4EB4Fu;
  for (std::size_t i = 8; i + 8 < s.size(); i += 8)
    h = (h ^ (h >> 29) ^ load<std::uint64_t>(s.data() + i)) * 0x9E3779B97F4A7C15u;
  return (h ^ (h >> 32)) * 0xD6E8FEB86659FD93u;
}

}  // namespace

void append_with_spaces(std::string_view piece, std::string& out) {
  for (std::size_t at; (at = piece.find(kMltSpace)) != std::string_view::npos;
       piece.remove_prefix(at + kMltSpace.size()))
    out.append(piece.substr(0, at)).push_back(' ');
  out += piece;
}

Vocabulary::Vocabulary(const Mlt& mlt, const std::vector<bool>& control) {
  const bool sentencepiece = mlt.kind == MltKind::kSentencePiece;
  std::size_t total = 0;
  for (const MltToken& token : mlt.tokens) total += token.bytes.size();
  blob_.reserve(total);
  offsets_.reserve(mlt.tokens.size() + 1);
  offsets_.push_back(0);
  for (const MltToken& token : mlt.tokens) {
    if (sentencepiece)
      append_with_spaces(token.bytes, blob_);
    else
      blob_ += token.bytes;
    offsets_.push_back(blob_.size());
  }
  // At most two thirds full, so that probes are short.
  const std::size_t places = std::bit_ceil(std::max<std::size_t>(size() * 3 / 2 + 1, 2));
  index_.resize(places);
  shift_ = 64 - std::countr_zero(places);
  filter_.resize((std::size_t{1} << kFilterBits) / 64);
  lengths_.resize(std::size_t{1} << kLengthsBits);
  constexpr std::size_t kAhead = 16;
  std::array<std::pair<Key, std::int32_t>, kAhead> waiting;  // prefetched
  std::size_t n = 0;
  const auto insert_waiting = [&] {
    for (std::size_t i = 0; i < n; ++i) insert(waiting[i].first, waiting[i].second);
    n = 0;
  };
  for (std::size_t i = 0; i < size(); ++i) {
    const MltToken& token = mlt.tokens[i];
    // Merging never produces a SentencePiece token with a literal space: text has U+2581 for its spaces.
    const bool reachable = sentencepiece ? !control[i] && token.attr != kMltByte &&
                                               token.bytes.find(' ') == std::string_view::npos
                                         : token.attr != kMltAdded;
    if (!reachable || token.bytes.empty()) continue;
    const auto id = static_cast<std::int32_t>(i);
    waiting[n] = {key_of(bytes(id)), id};
    prefetch(waiting[n].first);
    if (++n == kAhead) insert_waiting();
  }
  insert_waiting();
}

Vocabulary::Key Vocabulary::key_of(std::string_view bytes) {
  const std::uint64_t head = head_of(bytes), tail = tail_of(bytes);
  return {bytes, head, tail, hash(bytes, head, tail)};
}

/// The index of the entry of `key`, or of the free entry where it would be inserted.
std::size_t Vocabulary::slot_of(const Key& key) const {
  for (std::size_t at = key.hash >> shift_;; at = (at + 1) & (index_.size() - 1)) {
    const Entry& e = index_[at];
    if (e.id < 0) return at;
    if (e.head == key.head && e.tail == key.tail && e.length == key.bytes.size() &&
        (e.length <= 16 || bytes(e.id) == key.bytes))
      return at;
  }
}

void Vocabulary::insert(const Key& key, std::int32_t id) {
  const std::size_t length = key.bytes.size();
  Entry& e = index_[slot_of(key)];
  if (e.id >= 0) return;  // the lower id is kept
  e = {key.head, key.tail, static_cast<std::uint32_t>(length), id};
  const std::size_t bit = key.hash >> (64 - kFilterBits);
  filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  if (length >= kMinLength && length < kMinLength + 32)
    lengths_[lengths_slot(key.bytes)] |= 1u << (length - kMinLength);
  longest_ = std::max(longest_, length);
}

}  // namespace krafla
