#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/mapped_file.h"

namespace krafla {
namespace {

std::vector<bool> control_tokens(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& ids) {
  std::vector<bool> control(mlt.tokens.size());
  if (!ids) {
    for (std::size_t id = 0; id < control.size(); ++id) control[id] = mlt.tokens[id].attr == kMltAdded;
    return control;
  }
  for (const std::int32_t id : *ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= control.size() || mlt.tokens[static_cast<std::size_t>(id)].attr != kMltAdded)
      fail(ML_E_FORMAT, "control_ids has {}, which is not an added token of the tokenizer ({} tokens)", id, control.size());
    control[static_cast<std::size_t>(id)] = true;
  }
  return control;
}

void check_supported(const Mlt& mlt) {
  if (mlt.kind != MltKind::kByteLevel)
    fail(ML_E_UNSUPPORTED, "tokenizer of kind 1 (SentencePiece): this build has only kind 2 (byte-level)");
  if ((mlt.flags & kMltNfc) != 0) fail(ML_E_UNSUPPORTED, "tokenizer flag 8 (NFC): this build does not normalize");
}

PretokenizeRules rules(std::uint32_t flags) {
  return {.gpt2_regex = (flags & kMltGpt2Regex) != 0,
          .single_digits = (flags & kMltSingleDigits) != 0,
          .split_digits = (flags & kMltSplitDigits) != 0,
          .marks_are_letters = (flags & kMltMarksAreLetters) != 0};
}

}  // namespace

Tokenizer::Tokens::Tokens(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids)
    : vocabulary(mlt), control(control_tokens(mlt, control_ids)), added(vocabulary, control) {
  check_supported(mlt);
}

// Merges that make a control token are left out: text equal to one is matched before merging, unless it is a user's.
Tokenizer::Tokenizer(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids)
    : tokens_(std::make_unique<const Tokens>(mlt, control_ids)),
      merges_(mlt.merges, tokens_->control),
      pretokenizer_(rules(mlt.flags)),
      byte_ids_(256),
      whole_(std::make_unique<std::atomic<Whole>[]>(mlt.tokens.size())),
      bos_(mlt.bos),
      eos_(mlt.eos),
      adds_bos_((mlt.flags & kMltPrependBos) != 0),
      ignore_merges_((mlt.flags & kMltIgnoreMerges) != 0) {
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = tokens_->vocabulary.find({&c, 1});
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
  if (bos_ >= 0 && options.add_bos.value_or(adds_bos_)) ids.push_back(bos_);
  std::size_t done = 0;
  auto literal = options.literal.begin();
  for (std::size_t at = 0; (at = tokens_->added.candidate(text, at)) != std::string_view::npos;) {
    while (literal != options.literal.end() && literal->second <= at) ++literal;
    std::size_t limit = options.parse_special ? text.size() - at : 0;
    if (limit > 0 && literal != options.literal.end()) limit = literal->first > at ? std::min(limit, literal->first - at) : 0;
    const AddedTokens::Match match = tokens_->added.match(text.substr(at), limit);
    if (match.id < 0) {
      ++at;
      continue;
    }
    encode_text(text.substr(done, at - done), ids);
    ids.push_back(match.id);
    done = at += match.length;
  }
  encode_text(text.substr(done), ids);
  return ids;
}

void Tokenizer::encode_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  while (!text.empty()) {
    const std::size_t n = pretokenizer_.next(text);
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
  const std::int32_t id = tokens_->vocabulary.find(piece);
  if (id >= 0 && (ignore_merges_ || merges_to_itself(id)))
    ids.push_back(id);
  else
    merge_piece(piece, ids);
}

bool Tokenizer::merges_to_itself(std::int32_t id) const {
  std::atomic<Whole>& known = whole_[static_cast<std::size_t>(id)];
  Whole whole = known.load(std::memory_order_relaxed);
  if (whole == Whole::kUnknown) {
    std::vector<std::int32_t> merged;
    merge_piece(tokens_->vocabulary.bytes(id), merged);
    whole = merged.size() == 1 && merged[0] == id ? Whole::kYes : Whole::kNo;
    known.store(whole, std::memory_order_relaxed);
  }
  return whole == Whole::kYes;
}

void Tokenizer::merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kShortPiece> few;
  std::vector<std::int32_t> many;
  if (piece.size() > few.size()) many.resize(piece.size());
  std::int32_t* const symbols = piece.size() > few.size() ? many.data() : few.data();
  std::size_t n = 0;
  for (const char c : piece) {
    symbols[n] = byte_ids_[static_cast<std::uint8_t>(c)];
    n += symbols[n] >= 0;
  }
  n = merge_symbols(merges_, {symbols, n});
  ids.insert(ids.end(), symbols, symbols + n);
}

std::int32_t Tokenizer::find(std::string_view bytes) const {
  const std::int32_t added = tokens_->added.find(bytes);
  return added >= 0 ? added : tokens_->vocabulary.find(bytes);
}

bool Tokenizer::is_control(std::int32_t id) const {
  check_id(id);
  return tokens_->control[static_cast<std::size_t>(id)];
}

}  // namespace krafla
