// The argument TEXT of the commands that measure a model on one, and their line of progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/compute.h"

namespace krafla::cli {

struct TextOptions {
  std::string text;
  std::string tokenizer;
};

/// Declares TEXT and -z.
void add_text_options(CLI::App& command, TextOptions& options);

/// A tokenized text: BOS comes first if the tokenizer adds one, and no control token is made of the text's letters.
struct TokenizedText {
  std::vector<std::int32_t> ids;
  std::int32_t bos = -1;  // -1: the tokenizer adds none
  std::size_t vocab = 0;  // the tokenizer's
};
TokenizedText read_text(const TextOptions& options, const std::string& model_name, const Model& model);

/// The bytes of a file, "-" being standard input. ML_E_IO naming it.
std::string read_file(const std::string& path);

/// The path of a .mlt given with or without its ending.
std::string find_tokenizer(const std::string& name);

/// ML_E_ARG if `out` is one of the files that are read.
void check_not_input(const std::string& option, const std::string& out, const std::vector<std::string>& inputs);

/// A line on standard error that is written over, a few times a second; nothing unless it is a terminal. It ends with the object.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& line);

 private:
  bool terminal_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace krafla::cli
