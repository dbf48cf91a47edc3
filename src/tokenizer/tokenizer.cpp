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

// Merges that produce a control token are left out. Text equal to a control token is matched before merging;
// where it is not, it comes from a user and must not produce the token. If the system gives no thread, the
// merge table is built when its future is read.
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
      merge_boundaries_(mlt, vocabulary_),
      merges_(start.merges.get()),
      pretokenizer_(rules(mlt.flags)),
      byte_ids_(256, -1),
      derivations_(std::make_unique<std::atomic<std::uint64_t>[]>(mlt.tokens.size())),
      character_ids_(std::make_unique<std::atomic<std::int32_t>[]>(0x10000)) {
  for (std::size_t id = mlt.tokens.size(); id-- > 0;)  // the lowest id is kept
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

/// Whether a space is put before `text`: never, or before every text, or only before the first one if that
/// does not begin with a space. This is what the library's Metaspace does.
bool Tokenizer::puts_space_before(std::string_view text, bool at_start) const {
  if (!sentencepiece_ || (flags_ & kMltNoPrefix) != 0) return false;
  return (flags_ & kMltPrefixAtStart) == 0 ||
         (at_start && !text.starts_with(' ') && !text.starts_with(kMltSpace));
}

/// `text`, which lies between added tokens, in the form that is split into pieces. The result is `text`
/// itself or a view of `buffer`.
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
  if (sentencepiece_) return encode_segments(text, ids);
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

/// Encodes a pre-token: as its one byte, as a whole token, or segment by segment.
void Tokenizer::encode_piece(const Vocabulary::Key& key, std::vector<std::int32_t>& ids) const {
  const std::string_view piece = key.bytes;
  if (piece.size() == 1) return encode_segment(piece, ids);
  const std::int32_t id = vocabulary_.find(key);
  if (id >= 0 && ((flags_ & kMltIgnoreMerges) != 0 || derivation(id).is_reachable())) {
    ids.push_back(id);
    return;
  }
  // A byte that the vocabulary lacks is dropped. Then merges may join its neighbours, and no cut is safe.
  if (lacks_bytes_ && std::any_of(piece.begin(), piece.end(),
                                  [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)] < 0; }))
    return merge_piece(piece, ids);
  encode_segments(piece, ids);
}

void Tokenizer::encode_segments(std::string_view text, std::vector<std::int32_t>& ids) const {
  for (std::size_t n = 0; !text.empty(); text.remove_prefix(n))
    encode_segment(text.substr(0, n = merge_boundaries_.next(text)), ids);
}

void Tokenizer::encode_segment(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() == 1) {
    if (const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(piece[0])]; id >= 0) ids.push_back(id);
  } else if (const std::int32_t id = whole_token(piece); id >= 0) {
    ids.push_back(id);
  } else if (!encode_greedily(piece, ids)) {
    merge_piece(piece, ids);
  }
}

/// The token that merging makes of the whole `piece`, or -1.
std::int32_t Tokenizer::whole_token(std::string_view piece) const {
  const auto find = [&] {
    const std::int32_t id = vocabulary_.find(piece);
    return id >= 0 && derivation(id).is_reachable() ? id : -1;
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

/// Encodes `piece` by trying the longest token first at each place. Returns false, with nothing appended, if
/// that takes too many tries.
///
/// A token is reachable if merging its own bytes gives the token. Two tokens are a valid pair if merging the
/// bytes of both gives exactly these two.
///
/// Lemma: if a piece is the concatenation of reachable tokens and all adjacent ones are valid pairs, merging
/// the piece gives exactly these tokens.
///
/// Proof: suppose that some merge crosses the boundary of two tokens, and take the first such merge. Before
/// it, each token was merged independently of its neighbours. Hence the same merge would take place if these
/// two tokens were merged alone, and they would not be a valid pair. So no merge crosses a boundary. Then
/// each token is merged by itself, and the result is the token, because it is reachable.
///
/// So any such sequence is the answer. The longest token that forms a valid pair with the token before it
/// leads there nearly always; otherwise the search goes back by one token and tries a shorter one.
bool Tokenizer::encode_greedily(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (sentencepiece_ && !merge_boundaries_.whole_characters()) return false;
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
    } else {  // replace the last token by a shorter one
      --tries;
      below = vocabulary_.bytes(before).size();
      ids.pop_back();
      rest = piece.substr(piece.size() - rest.size() - below);
    }
  }
  return true;
}

/// The longest reachable token at the start of `text` that is shorter than `below` bytes and forms a valid
/// pair with the token `before` (-1: there is none); -1 if there is no such token. Counts down `tries`.
std::int32_t Tokenizer::longest_token(std::string_view text, std::size_t below, std::int32_t before,
                                      std::size_t& tries) const {
  const auto fits = [&](std::int32_t id) {
    if (id < 0 || !derivation(id).is_reachable()) return false;
    if (before < 0 || is_valid_pair(before, id)) return true;
    tries -= tries > 0;
    return false;
  };
  const std::size_t limit = std::min(text.size() + 1, below);  // the length is less
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

/// Whether two reachable tokens are a valid pair: whether merging their bytes gives exactly these two.
///
/// Goes back in time from the two tokens. Each step undoes the later of the last merges of the two symbols at
/// the boundary (at equal ranks the right one, because the leftmost merge comes first). If a rule joins the
/// two symbols at the boundary and comes before the merge undone last, merging would have applied it, and the
/// pair is invalid. If nothing is left to undo, the pair is valid.
///
/// At equal ranks the leftmost merge comes first again. In "aa|a" that is the left token's own merge, so the
/// rule does not count; in "a|aa" it is the rule, so it counts.
bool Tokenizer::is_valid_pair(std::int32_t left, std::int32_t right) const {
  Derivation l = derivation(left), r = derivation(right);
  if (!l.is_derived() || !r.is_derived()) return is_valid_pair_by_merging(left, right);
  std::int64_t limit = MergeTable::kNone;  // rules of lower rank come before the merge undone last
  for (;;) {
    if (merges_.find(left, right).rank < limit) return false;
    if (l.rank() > r.rank()) {
      limit = l.rank();
      l = derivation(left = l.right());
    } else if (r.rank() >= 0) {
      limit = r.rank() + 1;
      r = derivation(right = r.left());
    } else {
      return true;
    }
  }
}

/// The same, found by merging both. For the few tokens, such as runs of spaces, whose merges do not come in
/// ascending order of rank.
bool Tokenizer::is_valid_pair_by_merging(std::int32_t left, std::int32_t right) const {
  if (const std::optional<bool> known = pair_memo_.find(left, right)) return *known;
  std::string both;
  std::vector<std::int32_t> merged;
  merge_piece(both.append(vocabulary_.bytes(left)).append(vocabulary_.bytes(right)), merged);
  const bool apart = merged.size() == 2 && merged[0] == left && merged[1] == right;
  pair_memo_.store(left, right, apart);
  return apart;
}

Tokenizer::Derivation::Derivation(const LastMerge& last) {
  const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
  if (last.left < 0)
    word_ = kSymbol;
  else
    word_ = last.rising
                ? (bits(last.rank) + 1) << (2 * kIdBits) | bits(last.left) << kIdBits | bits(last.right)
                : bits(kReachable);
}

Tokenizer::Derivation Tokenizer::derivation(std::int32_t id) const {
  const Derivation known = derivations_[static_cast<std::size_t>(id)].load(std::memory_order_relaxed);
  return known.word() != Derivation::kUnknown ? known : derive(id);
}

Tokenizer::Derivation Tokenizer::derive(std::int32_t id) const {
  Derivation result = Derivation::kUnreachable;
  const std::string_view bytes = vocabulary_.bytes(id);
  std::array<std::int32_t, 4 * kShortPiece> symbols;
  const std::size_t n = bytes.size() <= symbols.size() ? piece_symbols(bytes, symbols.data()) : SIZE_MAX;
  if (n <= kShortPiece) {
    LastMerge last;
    const bool found = merge_by_scan(merges_, {symbols.data(), n}, &last) == 1 && symbols[0] == id;
    if (found)
      result = vocab_size() <= (1u << Derivation::kIdBits) && merges_.size() < (1u << 22) - 1
                   ? Derivation(last)
                   : Derivation(Derivation::kReachable);
  } else {
    std::vector<std::int32_t> merged;
    merge_piece(bytes, merged);
    if (merged.size() == 1 && merged[0] == id) result = Derivation::kReachable;
  }
  derivations_[static_cast<std::size_t>(id)].store(result.word(), std::memory_order_relaxed);
  return result;
}

/// Writes the symbols that merging `piece` starts from, and returns their number, at most one per byte.
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

/// Writes the tokens of the characters of `text`. A character that the vocabulary lacks becomes the tokens of
/// its bytes; if one of these is missing too, the character is dropped. Returns the number of tokens, at most
/// one per byte.
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
