#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/mapped_file.h"
#include "tokenizer/normalize.h"
#include "tokenizer/unicode.h"

namespace krafla {
namespace {

std::vector<bool> control_tokens(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& ids) {
  std::vector<bool> control(mlt.tokens.size());
  if (!ids) {
    for (std::size_t id = 0; id < control.size(); ++id)
      control[id] = mlt.tokens[id].attr == kMltAdded && mlt.tokens[id].bytes.size() != 1;
    for (const MltMerge& merge : mlt.merges) control[merge.merged] = false;
    return control;
  }
  for (const std::int32_t id : *ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= control.size() ||
        mlt.tokens[static_cast<std::size_t>(id)].attr != kMltAdded)
      fail(ML_E_FORMAT, "control_ids has {}, which is not an added token of the tokenizer ({} tokens)", id,
           control.size());
    control[static_cast<std::size_t>(id)] = true;
  }
  return control;
}

PretokenizeRules rules(std::uint32_t flags) {
  return {.gpt2_regex = (flags & kMltGpt2Regex) != 0,
          .single_digits = (flags & kMltSingleDigits) != 0,
          .split_digits = (flags & kMltSplitDigits) != 0,
          .marks_are_letters = (flags & kMltMarksAreLetters) != 0};
}

}  // namespace

// Merges that make a control token are left out: text equal to one is matched before merging, unless it is a
// user's. Where no thread can be had, they are built when they are asked for.
Tokenizer::Start::Start(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids)
    : control(control_tokens(mlt, control_ids)),
      merges(std::async([this, &mlt] { return MergeTable(mlt.merges, control); })) {}

Tokenizer::Tokenizer(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids)
    : Tokenizer(mlt, Start(mlt, control_ids)) {}

Tokenizer::Tokenizer(const Mlt& mlt, Start&& start)
    : sentencepiece_(mlt.kind == MltKind::kSentencePiece),
      flags_(mlt.flags),
      bos_(mlt.bos),
      eos_(mlt.eos),
      control_(start.control),
      vocabulary_(mlt, control_),
      added_(mlt, control_),
      joints_(mlt, vocabulary_),
      merges_(start.merges.get()),
      pretokenizer_(rules(mlt.flags)),
      byte_ids_(256, -1),
      made_(std::make_unique<std::atomic<std::uint64_t>[]>(mlt.tokens.size())),
      character_ids_(std::make_unique<std::atomic<std::int32_t>[]>(0x10000)) {
  for (std::size_t id = mlt.tokens.size(); id-- > 0;)  // the lowest id stays
    if (sentencepiece_ && mlt.tokens[id].attr == kMltByte)
      byte_ids_[static_cast<std::uint8_t>(mlt.tokens[id].bytes[0])] = static_cast<std::int32_t>(id);
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    if (const std::int32_t id = vocabulary_.find(std::string_view(&c, 1)); id >= 0) byte_ids_[byte] = id;
  }
  lacks_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) != byte_ids_.end();
}

Tokenizer Tokenizer::open(const std::string& path,
                          const std::optional<std::vector<std::int32_t>>& control_ids) {
  const MappedFile file(path);
  return Tokenizer(parse_mlt(file.bytes(), path), control_ids);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > UINT32_MAX)
    fail(ML_E_ARG, "text of {} bytes: allowed are at most {}", text.size(), UINT32_MAX);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 2);
  if (bos_ >= 0 && options.add_bos.value_or((flags_ & kMltPrependBos) != 0)) ids.push_back(bos_);
  if (options.ranges != nullptr) options.ranges->assign(ids.size(), {0, 0});
  std::size_t done = 0;
  std::string buffer;
  const auto encode_up_to = [&](std::size_t end) {
    const std::size_t before = ids.size();
    const std::string_view part = text.substr(done, end - done);
    encode_text(part, done == 0, buffer, ids);
    if (options.ranges != nullptr) find_ranges(part, done, std::span(ids).subspan(before), *options.ranges);
  };
  for (const AddedTokens::Match& match : added_.find_all(text, options.parse_special, options.literal)) {
    encode_up_to(match.at);
    ids.push_back(match.id);
    done = std::size_t{match.at} + match.length;
    if (options.ranges != nullptr) options.ranges->emplace_back(match.at, done);
  }
  encode_up_to(text.size());
  return ids;
}

std::vector<std::vector<std::int32_t>> Tokenizer::encode_batch(ThreadPool& pool,
                                                               std::span<const std::string_view> texts,
                                                               const EncodeOptions& options) const {
  std::vector<std::vector<std::int32_t>> result(texts.size());
  if (options.ranges != nullptr) fail(ML_E_ARG, "a batch of texts gives no ranges");
  pool.run(texts.size(), [&](std::size_t i, int) { result[i] = encode(texts[i], options); });
  return result;
}

/// The prefix: none, or before every text, or before the first one, unless it has one already (as the
/// library's Metaspace does it).
bool Tokenizer::puts_space_before(std::string_view text, bool at_start) const {
  if (!sentencepiece_ || (flags_ & kMltNoPrefix) != 0) return false;
  return (flags_ & kMltPrefixAtStart) == 0 ||
         (at_start && !text.starts_with(' ') && !text.starts_with(kMltSpace));
}

/// `text`, which is between added tokens, as its pieces are cut: itself, or what `buffer` then holds.
std::string_view Tokenizer::normalize(std::string_view text, bool at_start, std::string& buffer) const {
  if (!sentencepiece_) return (flags_ & kMltNfc) != 0 ? to_nfc(text, buffer) : text;
  const bool prefix = puts_space_before(text, at_start);
  if (!prefix && text.find(kMltSpace) == std::string_view::npos) return text;
  buffer.assign(prefix ? 1 : 0, ' ');
  append_with_spaces(text, buffer);
  return buffer;
}

void Tokenizer::encode_text(std::string_view text, bool at_start, std::string& buffer,
                            std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  text = normalize(text, at_start, buffer);
  if (sentencepiece_) return encode_parts(text, ids);
  std::array<Vocabulary::Key, 16> pieces;  // pre-tokens, prefetched
  while (!text.empty()) {
    std::size_t n = 0;
    while (n < pieces.size() && !text.empty()) {
      const std::size_t length = pretokenizer_.next(text);
      vocabulary_.prefetch(pieces[n++] = Vocabulary::key_of(text.substr(0, length)));
      text.remove_prefix(length);
    }
    for (std::size_t i = 0; i < n; ++i) encode_piece(pieces[i], ids);
  }
}

/// A pre-token: a byte, a whole token, or what its parts are that no merge joins.
void Tokenizer::encode_piece(const Vocabulary::Key& key, std::vector<std::int32_t>& ids) const {
  const std::string_view piece = key.bytes;
  if (piece.size() == 1) return encode_joined(piece, ids);
  const std::int32_t id = vocabulary_.find(key);
  if (id >= 0 && ((flags_ & kMltIgnoreMerges) != 0 || made(id).is_whole())) {
    ids.push_back(id);
    return;
  }
  // A byte that the vocabulary lacks is dropped, and what stood around it may be joined.
  if (lacks_bytes_ && std::any_of(piece.begin(), piece.end(),
                                  [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)] < 0; }))
    return merge_piece(piece, ids);
  encode_parts(piece, ids);
}

void Tokenizer::encode_parts(std::string_view text, std::vector<std::int32_t>& ids) const {
  for (std::size_t n = 0; !text.empty(); text.remove_prefix(n))
    encode_joined(text.substr(0, n = joints_.next(text)), ids);
}

void Tokenizer::encode_joined(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() == 1) {
    if (const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(piece[0])]; id >= 0) ids.push_back(id);
  } else if (const std::int32_t id = whole_token(piece); id >= 0) {
    ids.push_back(id);
  } else if (!encode_by_longest(piece, ids)) {
    merge_piece(piece, ids);
  }
}

/// The token that merging makes of all of `piece`, or -1.
std::int32_t Tokenizer::whole_token(std::string_view piece) const {
  const auto find = [&] {
    const std::int32_t id = vocabulary_.find(piece);
    return id >= 0 && made(id).is_whole() ? id : -1;
  };
  if (piece.size() != 3 || !is_ideograph(piece)) return find();
  std::atomic<std::int32_t>& known = character_ids_[read_utf8(piece).code];
  std::int32_t id = known.load(std::memory_order_relaxed) - 1;
  if (id == -1) {
    id = find();
    known.store(id < 0 ? -1 : id + 1, std::memory_order_relaxed);
  }
  return id;
}

/// Merging gives the one row of tokens that merging leaves alone two by two: a merge over the border of two
/// tokens, were it the first of all, would also be made of the two alone, since what each becomes until then
/// depends on neither's other neighbours. So any such row is the answer. The longest token at each place, if
/// it stands apart from the one before it, finds it nearly always. Returns false, with nothing appended, when
/// that takes too many tries.
bool Tokenizer::encode_by_longest(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (sentencepiece_ && !joints_.whole_characters()) return false;
  const std::size_t first = ids.size();
  std::size_t tries = 8 + piece.size() / 2;
  std::size_t below = SIZE_MAX;
  std::string_view rest = piece;
  while (!rest.empty()) {
    const std::int32_t before = ids.size() > first ? ids.back() : -1;
    const std::int32_t id = longest_token(rest, below, before, tries);
    if (id >= 0) {
      ids.push_back(id);
      rest.remove_prefix(vocabulary_.bytes(id).size());
      below = SIZE_MAX;
    } else if (before < 0 || tries == 0) {
      ids.resize(first);
      return false;
    } else {  // a shorter token instead of the last one
      --tries;
      below = vocabulary_.bytes(before).size();
      ids.pop_back();
      rest = piece.substr(piece.size() - rest.size() - below);
    }
  }
  return true;
}

/// The longest token at the start of `text` that is shorter than `below`, is what its bytes merge to and
/// stands apart from the token `before` (-1: there is none), or -1.
std::int32_t Tokenizer::longest_token(std::string_view text, std::size_t below, std::int32_t before,
                                      std::size_t& tries) const {
  const auto fits = [&](std::int32_t id) {
    if (id < 0 || !made(id).is_whole()) return false;
    if (before < 0 || stand_apart(before, id)) return true;
    tries -= tries > 0;
    return false;
  };
  const std::size_t limit = std::min(text.size() + 1, below);  // lengths are below it
  if (limit > Vocabulary::kMinLength) {
    std::uint32_t lengths = vocabulary_.lengths(text);
    if (const std::size_t n = limit - Vocabulary::kMinLength; n < 32) lengths &= (1u << n) - 1;
    while (lengths != 0) {
      const auto top = static_cast<std::uint32_t>(std::bit_width(lengths)) - 1;
      lengths ^= 1u << top;
      const std::int32_t id = vocabulary_.find(text.substr(0, Vocabulary::kMinLength + top));
      if (fits(id)) return id;
    }
  }
  if (limit > 2)
    if (const std::int32_t id = vocabulary_.find(text.substr(0, 2)); fits(id)) return id;
  const auto byte = static_cast<std::uint8_t>(text[0]);
  if (limit > 1 && (!sentencepiece_ || byte < 0x80) && fits(byte_ids_[byte])) return byte_ids_[byte];
  return -1;
}

/// Whether merging the bytes of two tokens, which each are what their bytes merge to, gives the two. Followed
/// backwards: the merge made last of those at the border's two sides is undone, until a rule joins what then
/// stands there, or nothing is left to undo. A rule counts if its rank comes before that of the merge undone
/// last; it is that merge's own rule in "aa|a" (the left one comes first) or "a|aa" (the rule does).
bool Tokenizer::stand_apart(std::int32_t left, std::int32_t right) const {
  Made l = made(left), r = made(right);
  if (!l.is_derived() || !r.is_derived()) return merge_apart(left, right);
  std::int64_t limit = MergeTable::kNone;  // ranks below it come first
  for (;;) {
    if (merges_.find(left, right).rank < limit) return false;
    if (l.rank() > r.rank()) {
      limit = l.rank();
      l = made(left = l.right());
    } else if (r.rank() >= 0) {
      limit = r.rank() + 1;
      r = made(right = r.left());
    } else {
      return true;
    }
  }
}

/// The same, found by merging: for the few tokens (runs of spaces) whose merges do not come in the order of
/// their ranks.
bool Tokenizer::merge_apart(std::int32_t left, std::int32_t right) const {
  if (const std::optional<bool> known = apart_.find(left, right)) return *known;
  std::string both;
  std::vector<std::int32_t> merged;
  merge_piece(both.append(vocabulary_.bytes(left)).append(vocabulary_.bytes(right)), merged);
  const bool apart = merged.size() == 2 && merged[0] == left && merged[1] == right;
  apart_.store(left, right, apart);
  return apart;
}

Tokenizer::Made::Made(const LastMerge& last) {
  const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
  if (last.left < 0)
    word_ = kSymbol;
  else
    word_ = last.rising
                ? (bits(last.rank) + 1) << (2 * kIdBits) | bits(last.left) << kIdBits | bits(last.right)
                : bits(kWhole);
}

Tokenizer::Made Tokenizer::made(std::int32_t id) const {
  const Made known = made_[static_cast<std::size_t>(id)].load(std::memory_order_relaxed);
  return known.word() != Made::kUnknown ? known : learn(id);
}

Tokenizer::Made Tokenizer::learn(std::int32_t id) const {
  Made result = Made::kBroken;
  const std::string_view bytes = vocabulary_.bytes(id);
  std::array<std::int32_t, 4 * kShortPiece> symbols;
  const std::size_t n = bytes.size() <= symbols.size() ? piece_symbols(bytes, symbols.data()) : SIZE_MAX;
  if (n <= kShortPiece) {
    LastMerge last;
    const bool found = merge_by_scan(merges_, {symbols.data(), n}, &last) == 1 && symbols[0] == id;
    if (found)
      result = vocab_size() <= (1u << Made::kIdBits) && merges_.size() < (1u << 22) - 1 ? Made(last)
                                                                                        : Made(Made::kWhole);
  } else {
    std::vector<std::int32_t> merged;
    merge_piece(bytes, merged);
    if (merged.size() == 1 && merged[0] == id) result = Made::kWhole;
  }
  made_[static_cast<std::size_t>(id)].store(result.word(), std::memory_order_relaxed);
  return result;
}

/// The symbols that merging starts from; there are no more than bytes.
std::size_t Tokenizer::piece_symbols(std::string_view piece, std::int32_t* symbols) const {
  if (sentencepiece_) return character_symbols(piece, symbols);
  std::size_t n = 0;
  for (const char c : piece) {
    symbols[n] = byte_ids_[static_cast<std::uint8_t>(c)];
    n += symbols[n] >= 0;
  }
  return n;
}

void Tokenizer::merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, 4 * kShortPiece> few;
  std::vector<std::int32_t> many;
  if (piece.size() > few.size()) many.resize(piece.size());
  std::int32_t* const symbols = piece.size() > few.size() ? many.data() : few.data();
  std::size_t n = piece_symbols(piece, symbols);
  n = merge_symbols(merges_, {symbols, n});
  ids.insert(ids.end(), symbols, symbols + n);
}

/// The tokens of the characters of `text`, or of their bytes where the vocabulary lacks the character; of
/// neither, where it lacks one of those too. Returns how many; there are no more than bytes.
std::size_t Tokenizer::character_symbols(std::string_view text, std::int32_t* symbols) const {
  std::size_t n = 0;
  while (!text.empty()) {
    const auto byte = static_cast<std::uint8_t>(text[0]);
    const Utf8Char c = read_utf8(text);
    const std::string_view character = text.substr(0, c.valid ? c.length : 1);
    text.remove_prefix(character.size());
    symbols[n] = byte < 0x80 ? byte_ids_[byte] : c.valid ? vocabulary_.find(character) : -1;
    if (symbols[n] >= 0) {
      ++n;
      continue;
    }
    const std::size_t before = n;
    for (const char b : character) symbols[n++] = byte_ids_[static_cast<std::uint8_t>(b)];
    if (std::find(symbols + before, symbols + n, -1) != symbols + n) n = before;
  }
  return n;
}

std::int32_t Tokenizer::find(std::string_view bytes) const {
  const std::int32_t added = added_.find(bytes);
  return added >= 0 ? added : vocabulary_.find(bytes);
}

bool Tokenizer::is_control(std::int32_t id) const {
  check_id(id);
  return control_[static_cast<std::size_t>(id)];
}

}  // namespace krafla
