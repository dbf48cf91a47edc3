// Text to token ids and back: the files are the pipeline. tokenizer.cpp joins them: added tokens are cut out
// of the text (added_tokens), the rest is normalized (normalize) and becomes pieces (byte-level:
// pretokenize), cut further where no merge can join (joints). A piece is a token, or a row of the longest
// tokens that stand apart (tokenizer.cpp), or is merged (bpe). Ids become bytes (decode); ranges says where
// in the text they come from. Goals: the ids of the `tokenizers` library for every text; any bytes are legal
// input; linear time in practice, n log n at worst.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "formats/mlt.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/joints.h"
#include "tokenizer/pair_memo.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/vocabulary.h"

namespace krafla {

struct EncodeOptions {
  /// Whether the BOS id comes first (where the tokenizer has one); unset: as the tokenizer's flag 1 says.
  std::optional<bool> add_bos = std::nullopt;
  /// false: the text is a user's: no control token is ever made of it; its letters are encoded instead.
  bool parse_special = true;
  /// Ranges that are a user's, ascending and apart: no control token is made of text that touches one of
  /// them.
  std::span<const TextRange> literal = {};
  /// If not null: gets, for each id, the bytes of the text it comes from. Tokens that share a character, or
  /// characters that NFC put together, overlap; a space that SentencePiece puts before the text and BOS come
  /// from none, [n, n).
  std::vector<TextRange>* ranges = nullptr;
};

/// Immutable and thread-safe after construction.
class Tokenizer {
 public:
  /// Keeps nothing of `mlt`'s bytes. `control_ids`: the added tokens that a user's text must never produce
  /// (the JSON beside the model lists them); unset: the added tokens of several bytes that no merge makes.
  /// ML_E_FORMAT for a control id that is no added token.
  explicit Tokenizer(const Mlt& mlt,
                     const std::optional<std::vector<std::int32_t>>& control_ids = std::nullopt);
  /// Reads a .mlt file. Also ML_E_IO and ML_E_FORMAT, as parse_mlt.
  static Tokenizer open(const std::string& path,
                        const std::optional<std::vector<std::int32_t>>& control_ids = std::nullopt);

  /// Any bytes are legal; ML_E_ARG for a text of 4 GiB or more.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// The ids of each text, as encode() gives them, in the texts' order. Items of the pool are texts: one long
  /// text is one thread's.
  std::vector<std::vector<std::int32_t>> encode_batch(ThreadPool& pool,
                                                      std::span<const std::string_view> texts,
                                                      const EncodeOptions& options = {}) const;
  /// The bytes of all ids, joined; they need not be UTF-8. `skip_special` leaves control tokens out. A
  /// SentencePiece tokenizer that puts a space before the text takes one away from the beginning. ML_E_ARG
  /// for an id that is none.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// The bytes one id stands for (spaces as spaces), valid as long as the tokenizer. ML_E_ARG for an id that
  /// is none.
  std::string_view token_bytes(std::int32_t id) const;
  /// The id with exactly these bytes, an added token before another, or -1.
  std::int32_t find(std::string_view bytes) const;
  std::size_t vocab_size() const { return vocabulary_.size(); }
  std::int32_t bos() const { return bos_; }  // or -1
  std::int32_t eos() const { return eos_; }  // or -1
  bool adds_bos() const { return (flags_ & kMltPrependBos) != 0 && bos_ >= 0; }
  /// Whether decode() takes one space away from the beginning of a text.
  bool drops_first_space() const { return sentencepiece_ && (flags_ & kMltNoPrefix) == 0; }
  /// ML_E_ARG for an id that is none.
  bool is_control(std::int32_t id) const;

 private:
  /// What is made before the rest: the merges are built by a thread of their own, while the vocabulary is.
  struct Start {
    Start(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids);
    Start(const Start&) = delete;  // the thread reads `control`
    std::vector<bool> control;
    std::future<MergeTable> merges;
  };
  Tokenizer(const Mlt& mlt, Start&& start);

  // What merging a token's own bytes gives, in one word: kBroken: not the token; kWhole: the token, so that a
  // piece equal to it needs no merging; kSymbol: the token, which is no merge; else the token too, by a last
  // merge of rank rank() that joins left() and right(), and no merge had a lower rank than one before it.
  class Made {
   public:
    enum : std::uint64_t { kUnknown, kBroken, kWhole, kSymbol };
    Made(std::uint64_t word) : word_(word) {}
    /// Ids must be below 2^kIdBits, the rank below 2^22 - 1.
    explicit Made(const LastMerge& last);
    std::uint64_t word() const { return word_; }
    bool is_whole() const { return word_ >= kWhole; }
    bool is_derived() const { return word_ >= kSymbol; }
    /// -1 for a symbol.
    std::int64_t rank() const {
      return word_ == kSymbol ? -1 : static_cast<std::int64_t>(word_ >> (2 * kIdBits)) - 1;
    }
    std::int32_t left() const { return static_cast<std::int32_t>(word_ >> kIdBits & kIdMask); }
    std::int32_t right() const { return static_cast<std::int32_t>(word_ & kIdMask); }

    static constexpr int kIdBits = 21;

   private:
    static constexpr std::uint64_t kIdMask = (std::uint64_t{1} << kIdBits) - 1;
    std::uint64_t word_;
  };
  void encode_text(std::string_view text, bool at_start, std::string& buffer,
                   std::vector<std::int32_t>& ids) const;
  bool puts_space_before(std::string_view text, bool at_start) const;
  std::string_view normalize(std::string_view text, bool at_start, std::string& buffer) const;
  void find_ranges(std::string_view text, std::size_t at, std::span<const std::int32_t> ids,
                   std::vector<TextRange>& ranges) const;
  std::size_t character_symbols(std::string_view text, std::int32_t* symbols) const;
  void encode_piece(const Vocabulary::Key& key, std::vector<std::int32_t>& ids) const;
  void encode_parts(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_joined(std::string_view piece, std::vector<std::int32_t>& ids) const;
  std::int32_t whole_token(std::string_view piece) const;
  bool encode_by_longest(std::string_view piece, std::vector<std::int32_t>& ids) const;
  std::int32_t longest_token(std::string_view text, std::size_t below, std::int32_t before,
                             std::size_t& tries) const;
  bool stand_apart(std::int32_t left, std::int32_t right) const;
  bool merge_apart(std::int32_t left, std::int32_t right) const;
  Made made(std::int32_t id) const;
  Made learn(std::int32_t id) const;
  std::size_t piece_symbols(std::string_view piece, std::int32_t* symbols) const;
  void merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void check_id(std::int32_t id) const;

  bool sentencepiece_;
  std::uint32_t flags_;
  std::int32_t bos_, eos_;
  std::vector<bool> control_;  // by id
  Vocabulary vocabulary_;
  AddedTokens added_;
  Joints joints_;  // cuts text (SentencePiece) or pre-tokens (byte-level) into what merging may join
  MergeTable merges_;
  Pretokenizer pretokenizer_;  // byte-level
  std::vector<std::int32_t>
      byte_ids_;  // the token of a byte by itself; -1: the vocabulary lacks it, and it is dropped
  bool lacks_bytes_ = false;
  // Learned when first needed. Every thread that learns finds the same, so a relaxed store is all it takes.
  std::unique_ptr<std::atomic<std::uint64_t>[]> made_;
  PairMemo apart_;  // of merge_apart()
  std::unique_ptr<std::atomic<std::int32_t>[]>
      character_ids_;  // whole_token() of the characters U+0000..FFFF; 0: not known yet
};

}  // namespace krafla
