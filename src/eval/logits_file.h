// MLL1, the saved logits of a text's scored positions (docs/formats/logits.md): views into the mapped file,
// and a writer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/output_file.h"
#include "eval/windows.h"

namespace krafla {

/// What the rows belong to.
struct ScoredText {
  std::size_t vocab = 0;  // logits a row
  Windows windows;
  std::int32_t bos = -1;              // put in the place of each window's first token, or -1
  std::span<const std::int32_t> ids;  // windows.n_ids of them
};

struct SavedLogits {
  ScoredText text;
  std::span<const float> rows;  // [windows.rows()][vocab]; not looked at yet

  std::span<const float> row(std::size_t i) const { return rows.subspan(i * text.vocab, text.vocab); }
};

/// Parses a file; `file` is aligned to 4 bytes (a mapping is). ML_E_FORMAT naming the field, as the page
/// lists them.
SavedLogits parse_saved_logits(Bytes file, std::string_view name);

/// Whether rows were saved for exactly this text: ML_E_SHAPE naming the first difference.
void check_same_text(const ScoredText& saved, const ScoredText& wanted, std::string_view name);

/// Writes a file row by row. It appears with commit(), which all rows must have been added before (ML_E_ARG).
class LogitsWriter {
 public:
  LogitsWriter(const std::string& path, const ScoredText& text);
  /// The next scored position's row; vocab values.
  void add(std::span<const float> row);
  void commit();

 private:
  OutputFile file_;
  std::size_t vocab_;
  std::uint64_t missing_;  // rows
};

}  // namespace krafla
