// `krafla tokenize`, also ml_tok: text to token ids and back.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_ids.h"
#include "base/pluralized.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/text.h"
#include "engine/loaded_model.h"
#include "tokenizer/unicode.h"

namespace krafla::cli {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::ordered_json;

struct Options {
  std::string tokenizer, file = "-", bench;
  std::optional<std::string> text;
  bool jsonl = false, json = false, decode = false, special = false, skip_special = false, count = false,
       pieces = false, offsets = false;

  EncodeOptions encode() const {
    EncodeOptions result;
    if (!special) result.add_bos = false;  // else as the tokenizer's flags say
    return result;
  }
};

void write_out(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
    fail(ML_E_IO, "standard output cannot be written");
}

void flush_out() {
  if (std::fflush(stdout) != 0) fail(ML_E_IO, "standard output cannot be written");
}

std::string joined(const Ids& ids, std::string_view separator) {
  return fmt::format("{}", fmt::join(ids, separator));
}

/// Ids separated by white space or commas, as a whole in brackets or not, so that both forms of output can be
/// read back.
Ids parse_ids(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n", kBetween = " \t\r\n,";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  if (text.starts_with('[') && text.ends_with(']') && text.size() > 1) text = text.substr(1, text.size() - 2);
  Ids ids;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      fail(ML_E_FORMAT, "\"{}\" is not a token id", word.substr(0, 80));
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

/// Token bytes as text: a part of a character is U+FFFD.
std::string shown_piece(const Tokenizer& tokenizer, std::int32_t id) {
  return Json(replace_invalid_utf8(tokenizer.token_bytes(id))).dump();
}

/// One JSON value: the ids, how many they are, or an object for each token.
std::string encode_json(const Tokenizer& tokenizer, const Options& options, std::string_view text) {
  EncodeOptions encode = options.encode();
  std::vector<TextRange> ranges;
  if (options.offsets) encode.ranges = &ranges;
  const Ids ids = tokenizer.encode(text, encode);
  if (options.count) return std::to_string(ids.size()) + "\n";
  if (!options.pieces && !options.offsets) return "[" + joined(ids, ",") + "]\n";
  std::string out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    out += fmt::format("{}{{\"id\":{}", i == 0 ? "[" : ",", ids[i]);
    if (options.offsets) out += fmt::format(",\"begin\":{},\"end\":{}", ranges[i].first, ranges[i].second);
    if (options.pieces) out += ",\"piece\":" + shown_piece(tokenizer, ids[i]);
    out += '}';
  }
  return (ids.empty() ? "[" : out) + "]\n";
}

/// Ids on one line, how many they are, or a line for each token: the id, begin, end, piece.
std::string encode_plain(const Tokenizer& tokenizer, const Options& options, std::string_view text) {
  EncodeOptions encode = options.encode();
  std::vector<TextRange> ranges;
  if (options.offsets) encode.ranges = &ranges;
  const Ids ids = tokenizer.encode(text, encode);
  if (options.count) return std::to_string(ids.size()) + "\n";
  if (!options.pieces && !options.offsets) return joined(ids, " ") + "\n";
  std::string out;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    out += std::to_string(ids[i]);
    if (options.offsets) out += fmt::format("\t{}\t{}", ranges[i].first, ranges[i].second);
    if (options.pieces) out += "\t" + shown_piece(tokenizer, ids[i]);
    out += '\n';
  }
  return out;
}

std::string decode_json(const Tokenizer& tokenizer, const Options& options, const Ids& ids) {
  return Json(replace_invalid_utf8(tokenizer.decode(ids, options.skip_special))).dump() + "\n";
}

std::string convert_line(const Tokenizer& tokenizer, const Options& options, const std::string& line) {
  const nlohmann::json json = parse_json(line);
  if (options.decode ? !json.is_array() : !json.is_string())
    fail(ML_E_FORMAT, "not a JSON {}", options.decode ? "list of token ids" : "string");
  if (options.decode) return decode_json(tokenizer, options, json_ids(json, "the list"));
  return encode_json(tokenizer, options, json.get_ref<const std::string&>());
}

/// A JSON value a line in, one a line out. What is written is flushed whenever no further line waits, so that
/// a program can keep this one open and ask line by line.
void run_jsonl(const Tokenizer& tokenizer, const Options& options, LineReader& in) {
  std::string line;
  for (std::size_t number = 1; in.next(line); ++number) {
    try {
      write_out(convert_line(tokenizer, options, line));
    } catch (const Error& e) {
      flush_out();
      if (e.status() == ML_E_IO) throw;
      fail(e.status(), "{}: line {}: {}", in.name(), number, e.what());
    }
    if (!in.ready()) flush_out();
  }
}

void run_text(const Tokenizer& tokenizer, const Options& options, std::string_view text) {
  if (options.decode && options.json)
    write_out(decode_json(tokenizer, options, parse_ids(text)));
  else if (options.decode)
    write_out(tokenizer.decode(parse_ids(text), options.skip_special));
  else
    write_out(options.json ? encode_json(tokenizer, options, text) : encode_plain(tokenizer, options, text));
}

/// Encodes again and again for at least a second; the best run is reported. Encoding uses one thread, so
/// processor time is measured, which leaves out other programs. Loading uses two threads, so wall time is
/// measured.
void run_bench(const Options& options) {
  const auto seconds = [](std::clock_t from) {
    return static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
  };
  const auto before = Clock::now();
  const Tokenizer tokenizer = open_tokenizer(tokenizer_path(options.tokenizer));
  const double load = seconds_since(before);
  const std::string text = read_file(options.bench);
  double best = 1e9, total = 0;
  std::size_t n_ids = 0;
  while (total < 1) {
    const std::clock_t start = std::clock();
    n_ids = tokenizer.encode(text, options.encode()).size();
    const double took = std::max(seconds(start), 1e-6);  // the clock's step
    best = std::min(best, took);
    total += took;
  }
  const double speed = static_cast<double>(text.size()) / best / 1e6;
  if (options.json)
    write_out(fmt::format("{{\"load_ms\":{:.2f},\"bytes\":{},\"ids\":{},\"mb_per_s\":{:.2f}}}\n", load * 1e3,
                          text.size(), n_ids, speed));
  else
    write_out(fmt::format("load {:.1f} ms; {}, {}, {:.1f} MB/s (best run)\n", load * 1e3,
                          pluralized(text.size(), "byte"), pluralized(n_ids, "id"), speed));
}

void run(const Options& options) {
  if (!options.bench.empty()) {
    run_bench(options);
  } else {
    const Tokenizer tokenizer = open_tokenizer(tokenizer_path(options.tokenizer));
    if (options.jsonl) {
      LineReader lines(options.file);
      run_jsonl(tokenizer, options, lines);
    } else {
      run_text(tokenizer, options, options.text ? *options.text : read_file(options.file));
    }
  }
  flush_out();
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to token ids and back");
  auto options = std::make_shared<Options>();
  command->add_option("tokenizer", options->tokenizer, "NAME.mlt, or NAME, NAME.mlb, NAME.json beside it")
      ->required();
  CLI::Option* file = command->add_option("file", options->file, "The text; - or nothing: standard input");
  CLI::Option* text = command->add_option("--text", options->text, "The text itself")->excludes(file);
  CLI::Option* jsonl =
      command->add_flag("--jsonl", options->jsonl, "A JSON string a line in, a JSON list of ids a line out")
          ->excludes(text);
  CLI::Option* decode = command->add_flag("--decode", options->decode, "The other way: ids in, text out");
  command->add_flag("--json", options->json, "One JSON value out: a list of ids; decoded, a string")
      ->excludes(jsonl);
  command->add_flag("--special,!--no-special", options->special,
                    "Add what the tokenizer adds of itself (BOS); the default is not to");
  command->add_flag("--skip-special", options->skip_special, "Leave control tokens out when decoding")
      ->needs(decode);
  CLI::Option* count = command->add_flag("--count", options->count, "Only how many ids")->excludes(decode);
  command->add_flag("--pieces", options->pieces, "A line for each token: its id and text")
      ->excludes(count)
      ->excludes(decode);
  command
      ->add_flag("--offsets", options->offsets,
                 "A line for each token: its id and where in the text it is, bytes begin to end - 1")
      ->excludes(count)
      ->excludes(decode);
  command->add_option("--bench", options->bench, "Measure how fast this file is encoded, in processor time")
      ->excludes(file)
      ->excludes(text)
      ->excludes(jsonl)
      ->excludes(decode);
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
