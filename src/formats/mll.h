// MLL1, the logits of a text's scored positions (docs/formats/logits.md): views into the mapped file, and a
// writer. A text is scored in windows, each of which a model reads from an empty context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/output_file.h"

namespace krafla {

inline constexpr std::size_t kMinWindow = 4, kMaxWindow = std::size_t{1} << 24;

/// Tokens [begin, begin + count) of the text. The logits at positions [first, count - 1) are scored, each by
/// the token that follows.
struct Window {
  std::size_t begin, count, first;
  std::size_t rows() const { return count - 1 - first; }
};

/// All windows of a text. stride 0: one after the other, and the later half of each is scored, as in
/// llama.cpp. Else they slide by `stride`, which is below ctx: every token but the text's first is scored
/// once, those after the first window with at least ctx - stride tokens before them.
struct Windows {
  std::size_t ctx = 512;
  std::size_t stride = 0;
  std::size_t count = 0;  // windows
  std::size_t n_ids = 0;  // tokens they cover

  Window operator[](std::size_t i) const;
  /// Scored positions of all windows.
  std::uint64_t rows() const;
  bool operator==(const Windows&) const = default;
};

/// Whether n_ids is what these windows cover.
bool covers(const Windows& windows);

/// What a file's rows belong to.
struct ScoredText {
  std::size_t vocab = 0;  // logits a row
  Windows windows;
  std::int32_t bos = -1;              // replaces each window's first token, unless -1
  std::span<const std::int32_t> ids;  // windows.n_ids of them
};

struct Mll {
  ScoredText text;
  std::span<const float> rows;  // [windows.rows()][vocab]; any values

  std::span<const float> row(std::size_t i) const { return rows.subspan(i * text.vocab, text.vocab); }
};

/// Parses a file; `file` is aligned to 4 bytes (a mapping is). ML_E_FORMAT naming the field, as the page
/// lists them.
Mll parse_mll(Bytes file, std::string_view name);

/// ML_E_SHAPE, naming the first difference, unless the rows were saved for this very text.
void check_same_text(const ScoredText& saved, const ScoredText& wanted, std::string_view name);

/// Writes a file row by row. It appears with commit(), after all rows (ML_E_ARG if some are missing).
class MllWriter {
 public:
  MllWriter(const std::string& path, const ScoredText& text);
  /// The next scored position's row; vocab values.
  void add(std::span<const float> row);
  void commit();

 private:
  OutputFile file_;
  std::size_t vocab_;
  std::uint64_t missing_;  // rows
};

}  // namespace krafla
