#include "cli/text.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace krafla::cli {

void add_text_options(CLI::App& command, TextOptions& options) {
  command.add_option("text", options.text, "A text file; -: standard input")->required()->check(not_empty);
  add_tokenizer_option(command, options.tokenizer);
}

namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

bool is_standard_input(const std::string& path) { return path == "-"; }

std::string shown_name(const std::string& path) { return is_standard_input(path) ? "standard input" : path; }

File open_file(const std::string& path) {
  File file(is_standard_input(path) ? stdin : std::fopen(path.c_str(), "rb"),
            [](std::FILE* f) { return f == stdin ? 0 : std::fclose(f); });
  if (!file) fail(ML_E_IO, "{}: cannot be opened: {}", path, std::strerror(errno));
  return file;
}

}  // namespace

std::string read_file(const std::string& path) {
  const File file = open_file(path);
  std::string text;
  char buffer[65536];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0;) text.append(buffer, n);
  if (std::ferror(file.get()))
    fail(ML_E_IO, "{}: cannot be read: {}", shown_name(path), std::strerror(errno));
  return text;
}

LineReader::LineReader(const std::string& path) : name_(shown_name(path)), file_(open_file(path)) {}

bool LineReader::next(std::string& line) {
  std::size_t end;
  std::size_t seen = at_;
  while ((end = buffer_.find('\n', seen)) == std::string::npos) {
    buffer_.erase(0, at_);
    at_ = 0;
    seen = buffer_.size();
    char more[65536];
    const ssize_t n = ::read(::fileno(file_.get()), more, sizeof more);  // fread would wait for all of it
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ML_E_IO, "{}: cannot be read: {}", name_, std::strerror(errno));
    if (n == 0) {
      line = std::exchange(buffer_, {});
      return !line.empty();
    }
    buffer_.append(more, static_cast<std::size_t>(n));
  }
  line.assign(buffer_, at_, end - at_);
  at_ = end + 1;
  return true;
}

TokenizedText read_text(const TextOptions& options, LoadedModel& loaded) {
  const std::string text = read_file(options.text);
  load_tokenizer(loaded, options.tokenizer);
  const Tokenizer& tokenizer = *loaded.tokenizer;
  return {tokenizer.encode(text, {.parse_special = false}), tokenizer.adds_bos() ? tokenizer.bos() : -1,
          tokenizer.vocab_size()};
}

void check_not_input(const std::string& option, const std::string& out, const ModelFiles& model,
                     std::vector<std::string> others) {
  others.insert(others.end(), {model.mlb, model.mlt, model.json});
  std::error_code ignored;
  for (const std::string& input : others)
    if (std::filesystem::equivalent(out, input, ignored) ||
        std::filesystem::equivalent(out, model_stem(input) + ".mlt", ignored))
      fail(ML_E_ARG, "{} {}: is the file that is read; name another", option, out);
}

void add_window_options(CLI::App& command, std::size_t& windows, std::size_t& batch) {
  command.add_option("--chunks", windows, "Windows at most; the default is the whole text")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 24));
  command.add_option("--batch", batch, "Tokens a forward call; does not change a bit of the result")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
      ->capture_default_str();
}

std::size_t window_size(std::size_t ctx, const Model& model) {
  return ctx != 0 ? ctx : std::min<std::size_t>(512, model.header().max_seq);
}

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) == 1) {
  if (!terminal_) last_ = Clock::now();
}

ProgressLine::~ProgressLine() {
  if (terminal_) std::fprintf(stderr, "\r%79s\r", "");
}

void ProgressLine::show(const std::string& line) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10))) return;
  last_ = now;
  std::fprintf(stderr, terminal_ ? "\r%-79s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace krafla::cli
