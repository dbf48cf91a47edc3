#include "cli/text.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "engine/model_files.h"
#include "tokenizer/tokenizer.h"

namespace krafla::cli {

void add_text_options(CLI::App& command, TextOptions& options) {
  command.add_option("text", options.text, "A text file; -: standard input")->required();
  command.add_option("-z,--tokenizer", options.tokenizer, "The .mlt file; the default is the one beside the model");
}

std::string read_file(const std::string& path) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : path;
  std::FILE* file = standard ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail(ML_E_IO, "{}: cannot be opened", name);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closer(file, [](std::FILE* f) { return f == stdin ? 0 : std::fclose(f); });
  std::string text;
  char buffer[65536];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) text.append(buffer, n);
  if (std::ferror(file)) fail(ML_E_IO, "{}: cannot be read", name);
  return text;
}

std::string find_tokenizer(const std::string& name) {
  std::error_code ignored;
  return !std::filesystem::exists(name, ignored) && std::filesystem::exists(name + ".mlt", ignored) ? name + ".mlt" : name;
}

TokenizedText read_text(const TextOptions& options, const std::string& model_name, const Model& model) {
  const std::string text = read_file(options.text);
  const std::string mlt = options.tokenizer.empty() ? find_model_files(model_name).mlt : find_tokenizer(options.tokenizer);
  const Tokenizer tokenizer = Tokenizer::open(mlt);
  if (tokenizer.vocab_size() > model.header().vocab)
    fail(ML_E_SHAPE, "{}: n_vocab is {}, but {} has a vocab of {}; they do not belong together", mlt, tokenizer.vocab_size(), model.path(),
         model.header().vocab);
  return {tokenizer.encode(text, {.parse_special = false}), tokenizer.adds_bos() ? tokenizer.bos() : -1, tokenizer.vocab_size()};
}

void check_not_input(const std::string& option, const std::string& out, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  for (const std::string& input : inputs)
    if (std::filesystem::equivalent(out, input, ignored)) fail(ML_E_ARG, "{} {}: is the file that is read; name another", option, out);
}

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (terminal_) std::fprintf(stderr, "\r%79s\r", "");
}

void ProgressLine::show(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  std::fprintf(stderr, "\r%-79s", line.c_str());
  std::fflush(stderr);
}

}  // namespace krafla::cli
