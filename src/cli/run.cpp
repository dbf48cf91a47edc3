// `krafla run`: a prompt goes in, text comes out.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "chat/chat.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/text.h"
#include "engine/generate.h"
#include "engine/model_files.h"
#include "eval/importance.h"

namespace krafla::cli {
namespace {

struct RunOptions {
  ComputeOptions compute;
  std::optional<std::string> prompt, prompt_file;
  std::string system, tokenizer, imatrix, chat_template;
  bool raw = false, verbose = false;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  GenerateOptions generate;
};

/// What a user gets who asks for nothing, where the model's JSON says nothing either: the defaults people know from llama.cpp.
constexpr float kTemperature = 0.8f, kTopP = 0.95f, kMinP = 0.05f;
constexpr int kTopK = 40;

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C stops the answer, the second the program.
void on_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

std::string read_prompt(const RunOptions& options) {
  if (options.prompt) return *options.prompt;
  if (options.prompt_file) return read_file(*options.prompt_file);
  if (isatty(STDIN_FILENO)) fail(ML_E_ARG, "there is no prompt: give one with --prompt TEXT, or pipe one in");
  std::string text = read_file("-");
  while (!options.raw && !text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();  // the pipe's, not the user's
  return text;
}

/// CLI11 reads "-1" as a large unsigned number.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc() && end == text.data() + text.size() ? "" : fmt::format("{} is not from 0 to 2^64 - 1", text);
}

SamplingOptions sampling(const RunOptions& options, const SamplingDefaults& model) {
  SamplingOptions out = options.generate.sampling;
  out.temperature = options.temperature.value_or(model.temperature.value_or(kTemperature));
  out.top_k = options.top_k.value_or(model.top_k.value_or(kTopK));
  out.top_p = options.top_p.value_or(model.top_p.value_or(kTopP));
  out.min_p = options.min_p.value_or(model.min_p.value_or(kMinP));
  out.repetition_penalty = options.repetition_penalty.value_or(model.repetition_penalty.value_or(1.0f));
  return out;
}

/// --chat-template takes a file's text, or the name of a built-in template.
std::string find_template(const RunOptions& options, const ModelInfo& info) {
  if (options.chat_template.empty()) return info.chat_template;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.chat_template, ignored)) return options.chat_template;
  return read_file(options.chat_template);
}

std::vector<std::int32_t> encode_prompt(const RunOptions& options, const ModelInfo& info, const Tokenizer& tokenizer) {
  const std::string text = read_prompt(options);
  if (text.empty()) fail(ML_E_ARG, "the prompt is empty");
  const std::string chat_template = find_template(options, info);
  if (options.raw || chat_template.empty()) return tokenizer.encode(text);
  std::vector<Message> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", text});
  const auto text_of = [&](std::int32_t id) { return id < 0 ? std::string() : std::string(tokenizer.token_bytes(id)); };
  const Prompt prompt = render_chat(chat_template, messages, true, {text_of(info.bos.value_or(tokenizer.bos())), text_of(tokenizer.eos())});
  return tokenizer.encode(prompt.text, {.add_bos = false, .literal = prompt.literal});
}

std::vector<std::int32_t> end_ids(const ModelInfo& info, const Tokenizer& tokenizer, const std::string& json) {
  std::vector<std::int32_t> ids = info.end_ids;
  for (const std::int32_t id : ids)
    if (static_cast<std::size_t>(id) >= tokenizer.vocab_size())
      fail(ML_E_FORMAT, "{}: \"end_ids\" has {}; the tokenizer's ids are 0 to {}", json, id, tokenizer.vocab_size() - 1);
  if (tokenizer.eos() >= 0) ids.push_back(tokenizer.eos());
  return ids;
}

/// Bytes of memory this program has held at most; 0 where the system does not say. (getrusage would count its parent's, from before exec.)
std::size_t peak_memory() {
  std::ifstream status("/proc/self/status");
  std::size_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes * 1024;
}

void print_timings(const Context& context, const Model& model, std::size_t prompt_tokens, const Generation& result, double open_seconds) {
  const auto rate = [](std::size_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0.0; };
  const double mb = 1e-6;
  std::fprintf(stderr, "open    %8.1f ms   %s, %.1f MB, kernels %s, threads %d\n", 1e3 * open_seconds, model.path().c_str(),
               mb * static_cast<double>(model.file_bytes()), context.kernels.name, context.threads.size());
  std::fprintf(stderr, "prompt  %8.1f ms   %zu tokens, %.1f tokens/s\n", 1e3 * result.prompt_seconds, prompt_tokens,
               rate(prompt_tokens, result.prompt_seconds));
  std::fprintf(stderr, "answer  %8.1f ms   %zu tokens, %.1f tokens/s\n", 1e3 * result.answer_seconds, result.ids.size(),
               rate(result.ids.size(), result.answer_seconds));
  std::fprintf(stderr, "memory  %8.1f MB at most, of which KV pages %.1f MB\n", mb * static_cast<double>(peak_memory()),
               mb * static_cast<double>(result.kv_bytes));
}

void run(RunOptions& options) {
  const ModelFiles files = find_model_files(options.compute.model);
  const ModelInfo info = read_model_info(files.json);
  const auto start = std::chrono::steady_clock::now();
  const auto context = make_context(options.compute);
  const Model model = open_model(options.compute, *context);
  // A tokenizer from elsewhere need not have the JSON's control ids: then all its added tokens count as such.
  const std::string mlt = options.tokenizer.empty() ? files.mlt : find_tokenizer(options.tokenizer);
  const Tokenizer tokenizer = Tokenizer::open(mlt, mlt == files.mlt ? info.control_ids : std::nullopt);
  const double open_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (tokenizer.vocab_size() > model.header().vocab)
    fail(ML_E_SHAPE, "{}: n_vocab is {}, but {} has a vocab of {}; they do not belong together", mlt, tokenizer.vocab_size(), files.mlb,
         model.header().vocab);

  options.generate.sampling = sampling(options, info.sampling);
  options.generate.end_ids = end_ids(info, tokenizer, files.json);
  options.generate.cancelled = [] { return interrupted != 0; };
  options.generate.on_text = [](std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      fail(ML_E_IO, "standard output cannot be written");
  };
  const std::vector<std::int32_t> prompt = encode_prompt(options, info, tokenizer);
  std::optional<Mli> importance;
  if (!options.imatrix.empty()) {
    check_not_input("--imatrix", options.imatrix, {model.path(), mlt, files.json, options.prompt_file.value_or("")});
    options.generate.importance = &importance.emplace(start_importance(model, options.imatrix));
  }
  std::signal(SIGINT, on_interrupt);
  const Generation result = generate(model, tokenizer, *context, prompt, options.generate);
  std::fputc('\n', stdout);
  if (importance) write_mli(options.imatrix, *importance);
  if (options.verbose) print_timings(*context, model, prompt.size(), result, open_seconds);
}

void add_sampling_options(CLI::App& command, RunOptions& options) {
  SamplingOptions& sampling = options.generate.sampling;
  const char* group = "Sampling (defaults: the model's JSON, else the value given here)";
  command.add_option("--temperature,--temp", options.temperature, fmt::format("0 takes the likeliest token; {}", kTemperature))
      ->group(group);
  command.add_option("--top-k", options.top_k, fmt::format("Only the k likeliest; 0: all; {}", kTopK))->group(group);
  command.add_option("--top-p", options.top_p, fmt::format("Only the likeliest that make up p; {}", kTopP))->group(group);
  command.add_option("--min-p", options.min_p, fmt::format("Only those at least p times as likely as the likeliest; {}", kMinP))
      ->group(group);
  command.add_option("--repetition-penalty", options.repetition_penalty, "Divides the logits of tokens seen; 1 is off")->group(group);
  command.add_option("--presence-penalty", sampling.presence_penalty, "Taken from the logits of tokens seen; 0 is off")->group(group);
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "The same for each time seen; 0 is off")->group(group);
  command.add_option("--penalty-window", sampling.penalty_window, "Tokens that the penalties look back; -1: all")->group(group);
  command.add_option("--seed", sampling.seed, "The same seed gives the same text, on every machine; 0")->check(check_seed)->group(group);
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Answer a prompt");
  auto options = std::make_shared<RunOptions>();
  const auto count = CLI::Range(std::size_t{1}, std::size_t{1} << 24);
  add_compute_options(*command, options->compute);
  auto* prompt = command->add_option("-p,--prompt", options->prompt, "The prompt; without it and --file, standard input is read");
  command->add_option("-f,--file", options->prompt_file, "A file with the prompt")->excludes(prompt);
  command->add_option("--system", options->system, "The system message of the chat");
  command->add_option("--chat-template", options->chat_template,
                      "A template's file, or a built-in one: chatml, llama3 ...; the default is the model's");
  command->add_flag("--raw", options->raw, "Continue the prompt as it is, without the model's chat template");
  command->add_option("-z,--tokenizer", options->tokenizer, "The .mlt file; the default is the one beside the model");
  command->add_option("--ctx", options->generate.context, "Positions of prompt and answer at most; the default is the model's max_seq")
      ->check(count);
  command
      ->add_option("-n,--max-tokens", options->generate.max_tokens, "Tokens of the answer at most; the default is what the context holds")
      ->check(count);
  add_kv_option(*command, options->generate.kv);
  command->add_option("--imatrix", options->imatrix, "Write to this file which input channels mattered, for convert --imatrix");
  command->add_flag("-v,--verbose", options->verbose, "Print timings and memory at the end, to standard error");
  add_sampling_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
