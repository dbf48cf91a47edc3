// Input that is text: files and standard input, whole or line by line; the argument TEXT of the commands that
// measure a model on one, and their line of progress.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/compute.h"
#include "engine/loaded_model.h"

namespace krafla::cli {

struct TextOptions {
  std::string text;
  std::string tokenizer;
};

/// Declares TEXT and -z.
void add_text_options(CLI::App& command, TextOptions& options);

/// A tokenized text: BOS comes first if the tokenizer adds one, and no control token is made of the text's
/// letters. Opens the model's tokenizer.
struct TokenizedText {
  std::vector<std::int32_t> ids;
  std::int32_t bos = -1;  // -1: the tokenizer adds none
  std::size_t vocab = 0;  // the tokenizer's
};
TokenizedText read_text(const TextOptions& options, LoadedModel& loaded);

/// The bytes of a file, "-" being standard input. ML_E_IO naming it.
std::string read_file(const std::string& path);

/// The lines of a file, "-" being standard input, as they come.
class LineReader {
 public:
  /// ML_E_IO naming the file if it cannot be opened.
  explicit LineReader(const std::string& path);
  /// The next line, without its newline; false at the end. ML_E_IO if it cannot be read.
  bool next(std::string& line);
  /// Whether the next line is here already, so that next() waits for nobody.
  bool ready() const { return buffer_.find('\n', at_) != std::string::npos; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string buffer_;  // what was read; the next line begins at at_
  std::size_t at_ = 0;
};

/// ML_E_ARG if `out` is one of the files that are read: those of the model, or one of `others` (names of no
/// file do no harm).
void check_not_input(const std::string& option, const std::string& out, const ModelFiles& model,
                     std::vector<std::string> others);

/// Declares --chunks and --batch, for commands that read a text in windows.
void add_window_options(CLI::App& command, std::size_t& windows, std::size_t& batch);

/// The tokens of a window: `ctx`, or where that is 0 (not asked for) 512, the model's max_seq if that is
/// less.
std::size_t window_size(std::size_t ctx, const Model& model);

/// Shows how far some work is, on standard error: at a terminal a line that is updated a few times a second
/// and cleared at the end; elsewhere a new line every ten seconds.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& line);

 private:
  bool terminal_;
  Clock::time_point last_;
};

}  // namespace krafla::cli
