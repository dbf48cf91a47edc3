// `krafla tokenize`, also ml_tok: text to token ids and back.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_ids.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "engine/model_files.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace krafla::cli {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

struct Options {
  std::string tokenizer, file, bench;
  std::optional<std::string> text;
  bool jsonl = false, decode = false, special = false, no_bos = false, skip_special = false;

  EncodeOptions encode() const {
    EncodeOptions result;
    if (!special || no_bos) result.add_bos = false;  // else as the tokenizer's flags say
    return result;
  }
};

/// The tokenizer `path` names: itself if it is a .mlt, else the .mlt beside NAME, NAME.mlb or NAME.json; control ids from NAME.json.
Tokenizer open_tokenizer(const std::string& path) {
  std::string base = path;
  for (const std::string_view extension : {".mlt", ".mlb", ".json"})
    if (path.ends_with(extension)) base.resize(path.size() - extension.size());
  return Tokenizer::open(base + ".mlt", read_model_info(base + ".json").control_ids);
}

void write_out(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) fail(ML_E_IO, "standard output cannot be written");
}

void flush_out() {
  if (std::fflush(stdout) != 0) fail(ML_E_IO, "standard output cannot be written");
}

std::string joined(const Ids& ids, std::string_view separator) { return fmt::format("{}", fmt::join(ids, separator)); }

/// Ids separated by white space, commas or brackets, so that both forms of output can be read back.
Ids parse_ids(std::string_view text) {
  Ids ids;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n,[]"), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n,[]"));
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) fail(ML_E_ERROR, "\"{}\" is not a token id", word.substr(0, 80));
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

std::string convert_line(const Tokenizer& tokenizer, const Options& options, const std::string& line) {
  const Json json = Json::parse(line);
  if (options.decode ? !json.is_array() : !json.is_string())
    fail(ML_E_ERROR, "not a JSON {}", options.decode ? "list of token ids" : "string");
  if (!options.decode) return "[" + joined(tokenizer.encode(json.get_ref<const std::string&>(), options.encode()), ",") + "]\n";
  const Ids ids = json_ids(json, "the list");
  return Json(replace_invalid_utf8(tokenizer.decode(ids, options.skip_special))).dump() + "\n";
}

/// A JSON value a line in, one a line out. What is written is flushed whenever no further input waits, so that a program can
/// keep this one open and ask line by line.
void run_jsonl(const Tokenizer& tokenizer, const Options& options, std::istream& in, const std::string& name) {
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    try {
      write_out(convert_line(tokenizer, options, line));
    } catch (const Json::exception& e) {
      flush_out();
      fail(ML_E_ERROR, "{}: line {}: {}", name, number, e.what());
    } catch (const Error& e) {
      flush_out();
      if (e.status() == ML_E_IO) throw;
      fail(ML_E_ERROR, "{}: line {}: {}", name, number, e.what());
    }
    if (in.rdbuf()->in_avail() <= 0) flush_out();
  }
  if (in.bad()) fail(ML_E_IO, "{}: cannot be read", name);
}

void run_text(const Tokenizer& tokenizer, const Options& options, std::string_view text) {
  if (options.decode)
    write_out(tokenizer.decode(parse_ids(text), options.skip_special));
  else
    write_out(joined(tokenizer.encode(text, options.encode()), " ") + "\n");
}

void run_bench(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); };
  auto start = Clock::now();
  const Tokenizer tokenizer = open_tokenizer(options.tokenizer);
  const double load = seconds(start);
  const MappedFile file(options.bench);
  const std::string text(file.bytes().begin(), file.bytes().end());
  double best = 1e9, total = 0;
  std::size_t n_ids = 0;
  while (total < 1) {
    start = Clock::now();
    n_ids = tokenizer.encode(text, options.encode()).size();
    best = std::min(best, seconds(start));
    total += seconds(start);
  }
  write_out(fmt::format("load {:.1f} ms; {} bytes, {} ids, {:.1f} MB/s (best run)\n", load * 1e3, text.size(), n_ids,
                        static_cast<double>(text.size()) / best / 1e6));
}

void run(const Options& options) {
  if (!options.bench.empty()) return run_bench(options);
  const Tokenizer tokenizer = open_tokenizer(options.tokenizer);
  const bool from_stdin = options.file.empty() || options.file == "-";
  if (options.text && !options.file.empty()) throw CLI::ValidationError("--text", "--text and FILE exclude each other");
  if (options.text && !options.jsonl) {
    run_text(tokenizer, options, *options.text);
  } else if (options.jsonl) {
    std::ios::sync_with_stdio(false);
    std::unique_ptr<std::istream> file;
    if (options.text)
      file = std::make_unique<std::istringstream>(*options.text);
    else if (!from_stdin)
      file = std::make_unique<std::ifstream>(options.file);
    if (file && !*file) fail(ML_E_IO, "{}: cannot be opened", options.file);
    run_jsonl(tokenizer, options, file ? *file : std::cin, from_stdin ? "standard input" : options.file);
  } else if (from_stdin) {
    std::ios::sync_with_stdio(false);
    run_text(tokenizer, options, std::string(std::istreambuf_iterator<char>(std::cin), {}));
  } else {
    const MappedFile file(options.file);
    run_text(tokenizer, options, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  flush_out();
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back");
  auto options = std::make_shared<Options>();
  command->add_option("tokenizer", options->tokenizer, "NAME.mlt, or NAME, NAME.mlb, NAME.json beside it")->required();
  command->add_option("file", options->file, "The text; - or nothing: standard input");
  command->add_option("--text", options->text, "The text itself");
  command->add_flag("--jsonl", options->jsonl, "A JSON string a line in, a JSON list of ids a line out");
  command->add_flag("--decode", options->decode, "The other way: ids in, text out");
  command->add_flag("--special", options->special, "Add what the tokenizer adds of itself (BOS)");
  command->add_flag("--no-bos", options->no_bos, "No BOS, also with --special");
  command->add_flag("--skip-special", options->skip_special, "Leave control tokens out when decoding");
  command->add_option("--bench", options->bench, "Measure how fast this file is encoded");
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
