#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/mapped_file.h"
#include "tokenizer/normalize.h"
#include "tokenizer/unicode.h"

namespace krafla {
namespace {

std::vector<bool> control_tokens(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& ids) {
  std::vector<bool> control(mlt.tokens.size());
  if (!ids) {
    for (std::size_t id = 0; id < control.size(); ++id) control[id] = mlt.tokens[id].attr == kMltAdded && mlt.tokens[id].bytes.size() != 1;
    for (const MltMerge& merge : mlt.merges) control[merge.merged] = false;
    return control;
  }
  for (const std::int32_t id : *ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= control.size() || mlt.tokens[static_cast<std::size_t>(id)].attr != kMltAdded)
      fail(ML_E_FORMAT, "control_ids has {}, which is not an added token of the tokenizer ({} tokens)", id, control.size());
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

// Merges that make a control token are left out: text equal to one is matched before merging, unless it is a user's.
Tokenizer::Tokenizer(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids)
    : sentencepiece_(mlt.kind == MltKind::kSentencePiece),
      flags_(mlt.flags),
      bos_(mlt.bos),
      eos_(mlt.eos),
      control_(control_tokens(mlt, control_ids)),
      vocabulary_(mlt, control_),
      added_(mlt, control_),
      merges_(mlt.merges, control_),
      pretokenizer_(rules(mlt.flags)),
      byte_ids_(256, -1),
      whole_(std::make_unique<std::atomic<Whole>[]>(mlt.tokens.size())) {
  if (sentencepiece_) joints_.emplace(mlt, vocabulary_);
  for (std::size_t id = mlt.tokens.size(); id-- > 0;)  // the lowest id stays
    if (sentencepiece_ && mlt.tokens[id].attr == kMltByte)
      byte_ids_[static_cast<std::uint8_t>(mlt.tokens[id].bytes[0])] = static_cast<std::int32_t>(id);
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    if (const std::int32_t id = vocabulary_.find({&c, 1}); id >= 0) byte_ids_[byte] = id;
  }
}

Tokenizer Tokenizer::open(const std::string& path, const std::optional<std::vector<std::int32_t>>& control_ids) {
  const MappedFile file(path);
  return Tokenizer(parse_mlt(file.bytes(), path), control_ids);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > UINT32_MAX) fail(ML_E_ARG, "text of {} bytes: allowed are at most {}", text.size(), UINT32_MAX);
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
  auto literal = options.literal.begin();
  for (std::size_t at = 0; (at = added_.candidate(text, at)) != std::string_view::npos;) {
    while (literal != options.literal.end() && literal->second <= at) ++literal;
    std::size_t limit = options.parse_special ? text.size() - at : 0;
    if (limit > 0 && literal != options.literal.end()) limit = literal->first > at ? std::min(limit, literal->first - at) : 0;
    const AddedTokens::Match match = added_.match(text.substr(at), limit);
    if (match.id < 0) {
      ++at;
      continue;
    }
    encode_up_to(at);
    ids.push_back(match.id);
    if (options.ranges != nullptr) options.ranges->emplace_back(at, at + match.length);
    done = at += match.length;
  }
  encode_up_to(text.size());
  return ids;
}

std::vector<std::vector<std::int32_t>> Tokenizer::encode_batch(ThreadPool& pool, std::span<const std::string_view> texts,
                                                               const EncodeOptions& options) const {
  std::vector<std::vector<std::int32_t>> result(texts.size());
  if (options.ranges != nullptr) fail(ML_E_ARG, "a batch of texts gives no ranges");
  pool.run(texts.size(), [&](std::size_t i, int) { result[i] = encode(texts[i], options); });
  return result;
}

/// The prefix: none, or before every text, or before the first one, unless it has one already (as the library's Metaspace does it).
bool Tokenizer::puts_space_before(std::string_view text, bool at_start) const {
  if (!sentencepiece_ || (flags_ & kMltNoPrefix) != 0) return false;
  return (flags_ & kMltPrefixAtStart) == 0 || (at_start && !text.starts_with(' ') && !text.starts_with(kMltSpace));
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

void Tokenizer::encode_text(std::string_view text, bool at_start, std::string& buffer, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  text = normalize(text, at_start, buffer);
  while (!text.empty()) {
    const std::size_t n = sentencepiece_ ? joints_->next(text) : pretokenizer_.next(text);
    encode_piece(text.substr(0, n), ids);
    text.remove_prefix(n);
  }
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.size() == 1) {
    const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(piece[0])];
    if (id >= 0) ids.push_back(id);
    return;
  }
  const std::int32_t id = vocabulary_.find(piece);
  if (id >= 0 && ((!sentencepiece_ && (flags_ & kMltIgnoreMerges) != 0) || merges_to_itself(id)))
    ids.push_back(id);
  else
    merge_piece(piece, ids);
}

bool Tokenizer::merges_to_itself(std::int32_t id) const {
  std::atomic<Whole>& known = whole_[static_cast<std::size_t>(id)];
  Whole whole = known.load(std::memory_order_relaxed);
  if (whole == Whole::kUnknown) {
    std::vector<std::int32_t> merged;
    merge_piece(vocabulary_.bytes(id), merged);
    whole = merged.size() == 1 && merged[0] == id ? Whole::kYes : Whole::kNo;
    known.store(whole, std::memory_order_relaxed);
  }
  return whole == Whole::kYes;
}

void Tokenizer::merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, 4 * kShortPiece> few;
  std::vector<std::int32_t> many;
  if (piece.size() > few.size()) many.resize(piece.size());
  std::int32_t* const symbols = piece.size() > few.size() ? many.data() : few.data();
  std::size_t n = 0;
  if (sentencepiece_) {
    n = character_symbols(piece, symbols);
  } else {
    for (const char c : piece) {
      symbols[n] = byte_ids_[static_cast<std::uint8_t>(c)];
      n += symbols[n] >= 0;
    }
  }
  n = merge_symbols(merges_, {symbols, n});
  ids.insert(ids.end(), symbols, symbols + n);
}

/// The tokens of the characters of `text`, or of their bytes where the vocabulary lacks the character; of neither, where it lacks
/// one of those too. Returns how many; there are no more than bytes.
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
