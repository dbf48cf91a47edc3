// Text to token ids and back. Each file of this folder is one step of the pipeline; tokenizer.cpp connects
// them:
//
//   added_tokens      finds the added tokens in the text
//   normalize         brings the text between them into NFC
//   pretokenize       splits it into pre-tokens (byte-level vocabularies only)
//   merge_boundaries  splits it further, at places that no merge can cross
//   tokenizer         tries the longest tokens first
//   bpe               merges what the step before could not encode
//   decode            turns ids into bytes
//   ranges            finds where in the text each id comes from
//
// Goals: the same ids as the `tokenizers` library for every text; any bytes are legal input; linear time in
// practice, O(n log n) at worst.
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
#include "tokenizer/merge_boundaries.h"
#include "tokenizer/pair_memo.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/vocabulary.h"

namespace krafla {

struct EncodeOptions {
  /// Whether the BOS id comes first, if the tokenizer has one. If unset, flag 1 of the .mlt decides.
  std::optional<bool> add_bos = std::nullopt;
  /// If false, the text never produces a control token: the marker's characters are encoded instead. Text
  /// from users must be encoded in this way.
  bool parse_special = true;
  /// Ranges of the text that come from users, ascending and disjoint. Text that overlaps one of them never
  /// produces a control token.
  std::span<const TextRange> literal = {};
  /// If not null, it receives the range of the text that each id comes from. The ranges of tokens that share
  /// a character, or characters that NFC composed, overlap. BOS, and a space that SentencePiece puts before
  /// the text, have an empty range [n, n).
  std::vector<TextRange>* ranges = nullptr;
};

/// Immutable and thread-safe after construction.
class Tokenizer {
 public:
  /// Keeps nothing of `mlt`'s bytes. `control_ids` are the added tokens that text from users must never
  /// produce; the JSON beside the model lists them. If unset, they are the added tokens that no merge
  /// produces, except those of one byte. ML_E_FORMAT for a control id that is not an added token.
  explicit Tokenizer(const Mlt& mlt,
                     const std::optional<std::vector<std::int32_t>>& control_ids = std::nullopt);
  /// Reads a .mlt file. Also throws the errors of MappedFile and parse_mlt().
  static Tokenizer open(const std::string& path,
                        const std::optional<std::vector<std::int32_t>>& control_ids = std::nullopt);

  /// Any bytes are legal; ML_E_ARG for a text of 4 GiB or more.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// The ids of each text, as encode() returns them, in the order of the texts. Each text is encoded by one
  /// thread. `options.ranges` must be null, else ML_E_ARG.
  std::vector<std::vector<std::int32_t>> encode_batch(ThreadPool& pool,
                                                      std::span<const std::string_view> texts,
                                                      const EncodeOptions& options = {}) const;
  /// The bytes of all ids, concatenated; they need not be UTF-8. `skip_special` leaves control tokens out. A
  /// SentencePiece tokenizer that puts a space before the text removes a space from the beginning. ML_E_ARG
  /// for an invalid id.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// The bytes of one token, with spaces in place of U+2581. The view is valid as long as the tokenizer.
  /// ML_E_ARG for an invalid id.
  std::string_view token_bytes(std::int32_t id) const;
  /// The id of the token with exactly these bytes, or -1. Added tokens take precedence.
  std::int32_t find(std::string_view bytes) const;
  std::size_t vocab_size() const { return vocabulary_.size(); }
  std::int32_t bos() const { return bos_; }  // or -1
  std::int32_t eos() const { return eos_; }  // or -1
  bool adds_bos() const { return (flags_ & kMltPrependBos) != 0 && bos_ >= 0; }
  /// Whether decode() removes one space from the beginning of a text.
  bool drops_first_space() const { return sentencepiece_ && (flags_ & kMltNoPrefix) == 0; }
  /// ML_E_ARG for an invalid id.
  bool is_control(std::int32_t id) const;

 private:
  /// The first steps of construction. A second thread builds the merge table while the constructor builds the
  /// vocabulary.
  struct Start {
    Start(const Mlt& mlt, const std::optional<std::vector<std::int32_t>>& control_ids);
    Start(const Start&) = delete;  // the thread reads `control`
    std::vector<bool> control;
    std::future<MergeTable> merges;
  };
  Tokenizer(const Mlt& mlt, Start&& start);

  /// What merging a token's own bytes gives, in one word:
  ///   kUnreachable  not the token
  ///   kReachable    the token, so a piece equal to it needs no merging
  ///   kSymbol       the token, without any merge: it is a symbol that merging starts from
  ///   else          the token. Its last merge has rank rank() and joins left() and right(), and the ranks of
  ///                 all its merges came in ascending order
  class Derivation {
   public:
    enum : std::uint64_t { kUnknown, kUnreachable, kReachable, kSymbol };
    Derivation(std::uint64_t word) : word_(word) {}
    /// Ids must be below 2^kIdBits, and the rank below 2^22 - 1.
    explicit Derivation(const LastMerge& last);
    std::uint64_t word() const { return word_; }
    /// Whether merging the token's bytes gives the token.
    bool is_reachable() const { return word_ >= kReachable; }
    /// Whether rank(), left() and right() are known.
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
  void encode_segments(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_segment(std::string_view piece, std::vector<std::int32_t>& ids) const;
  std::int32_t whole_token(std::string_view piece) const;
  bool encode_greedily(std::string_view piece, std::vector<std::int32_t>& ids) const;
  std::int32_t longest_token(std::string_view text, std::size_t below, std::int32_t before,
                             std::size_t& tries) const;
  bool is_valid_pair(std::int32_t left, std::int32_t right) const;
  bool is_valid_pair_by_merging(std::int32_t left, std::int32_t right) const;
  Derivation derivation(std::int32_t id) const;
  Derivation derive(std::int32_t id) const;
  std::size_t piece_symbols(std::string_view piece, std::int32_t* symbols) const;
  void merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void check_id(std::int32_t id) const;

  bool sentencepiece_;
  std::uint32_t flags_;
  std::int32_t bos_, eos_;
  std::vector<bool> control_;  // by id
  Vocabulary vocabulary_;
  AddedTokens added_;
  MergeBoundaries merge_boundaries_;  // splits text (SentencePiece) or pre-tokens (byte-level)
  MergeTable merges_;
  Pretokenizer pretokenizer_;  // byte-level only
  // The token of each single byte. -1: the vocabulary lacks it, and the byte is dropped.
  std::vector<std::int32_t> byte_ids_;
  bool lacks_bytes_ = false;

  // Caches, filled on demand. Every thread computes the same values, so relaxed loads and stores suffice.
  std::unique_ptr<std::atomic<std::uint64_t>[]> derivations_;  // by id
  PairMemo pair_memo_;                                         // is_valid_pair_by_merging()
  // For the characters U+0000..FFFF: 0 if not computed yet, -1 if whole_token() finds none, else the id + 1.
  std::unique_ptr<std::atomic<std::int32_t>[]> character_ids_;
};

}  // namespace krafla
