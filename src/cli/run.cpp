// `krafla run`: a prompt goes in, text comes out.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/pluralized.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/hint.h"
#include "cli/text.h"
#include "eval/importance.h"

namespace krafla::cli {
namespace {

/// The exit code after Ctrl-C, as shells give it: 128 + SIGINT.
constexpr int kInterrupted = 130;

struct RunOptions : AnswerOptions {
  std::optional<std::string> prompt, prompt_file, messages_file;
  std::string imatrix;
  bool raw = false, verbose = false;
};

std::string read_prompt(const RunOptions& options) {
  if (options.prompt) return *options.prompt;
  if (options.prompt_file) return read_file(*options.prompt_file);
  if (isatty(STDIN_FILENO)) fail(ML_E_ARG, "there is no prompt: give one with --prompt TEXT, or pipe one in");
  std::string text = read_file("-");
  while (!options.raw && !text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();  // the pipe's, not the user's
  return text;
}

/// The conversation that the options give: the file's, or one with the prompt as its only message.
ChatInput read_conversation(const RunOptions& options, const std::string& prompt,
                            const ConversationFormat& format) {
  ChatInput input;
  const bool tools = !options.tools.empty();
  if (tools) input.tools = read_tools(options.tools, format);
  if (options.messages_file) {
    input.messages = read_messages(*options.messages_file, tools, format);
    if (input.messages.empty())
      fail(ML_E_FORMAT, "{}: messages is empty; there must be one to answer", *options.messages_file);
    return input;
  }
  if (!options.system.empty()) input.messages.push_back({{"role", "system"}, {"content", options.system}});
  input.messages.push_back({{"role", "user"}, {"content", prompt}});
  return input;
}

/// The prompt's ids. Sets in the options how the answer's text is written: a model without a chat template,
/// and any with --raw, continues the prompt.
std::vector<std::int32_t> encode_prompt(RunOptions& options, const LoadedModel& loaded) {
  const std::string text = options.messages_file ? std::string() : read_prompt(options);
  if (text.empty() && !options.messages_file) fail(ML_E_ARG, "the prompt is empty");
  std::optional<ConversationFormat> format;
  if (!options.raw)
    with_hint({ML_E_UNSUPPORTED}, "--raw takes the prompt as it is",
              [&] { format.emplace(loaded, read_chat_template(options.chat_template)); });
  const bool tools = !options.tools.empty();
  if (options.messages_file || tools) check_has_template(*format, tools, loaded);
  options.request.is_continuation = !format || !format->has_template(tools);
  if (options.request.is_continuation) return loaded.tokenizer->encode(text);
  ChatPrompt prompt = format->encode(read_conversation(options, text, *format));
  options.request.visible_control_tokens = std::move(prompt.visible_control_tokens);
  return std::move(prompt.ids);
}

void print_timings(const Engine& engine, const Context& context, const Usage& usage, double open_seconds) {
  const double mb = 1e-6;
  const Model& model = engine.model();
  std::fprintf(stderr, "open    %8.1f ms   %s, %.1f MB, kernels %s, threads %d\n", 1e3 * open_seconds,
               model.path().c_str(), mb * static_cast<double>(model.bytes().size()), context.kernels.name,
               context.threads.size());
  std::fprintf(stderr, "prompt  %8.1f ms   %s, %.1f tokens/s\n", 1e3 * usage.prompt_seconds,
               pluralized(usage.prompt_tokens, "token").c_str(),
               tokens_per_second(usage.prompt_tokens, usage.prompt_seconds));
  std::fprintf(stderr, "answer  %8.1f ms   %s, %.1f tokens/s\n", 1e3 * usage.answer_seconds,
               pluralized(usage.answer_tokens, "token").c_str(),
               tokens_per_second(usage.answer_tokens, usage.answer_seconds));
  if (usage.drafted_tokens > 0)
    std::fprintf(stderr, "guessed %8zu      %zu of them right\n", usage.drafted_tokens,
                 usage.accepted_tokens);
  std::fprintf(stderr, "memory  %8.1f MB at most, of which KV pages %.1f MB\n",
               mb * static_cast<double>(peak_memory()), mb * static_cast<double>(engine.stats().kv_memory));
}

void run(RunOptions& options) {
  const auto start = Clock::now();
  const AnswerModel opened(options);
  const double open_seconds = seconds_since(start);
  const LoadedModel& loaded = opened.loaded;
  Context& context = *opened.context;
  options.request.sampling = with_settings(options.request.sampling, options.settings, loaded.info.sampling);
  options.request.end_ids = loaded.end_ids;
  options.request.cancelled = interrupted;
  options.request.prompt = encode_prompt(options, loaded);
  EngineOptions engine_options{.kv = options.kv, .cache_bytes = 0};
  if (opened.draft) engine_options.draft = &opened.draft->model;
  std::optional<Mli> importance;
  std::optional<ImportanceObserver> observer;
  std::optional<OutputFile> importance_file;
  if (!options.imatrix.empty()) {
    engine_options.observer = &observer.emplace(importance.emplace(start_importance(loaded.model)));
    check_not_input("--imatrix", options.imatrix, loaded.files,
                    {loaded.tokenizer_file, options.prompt_file.value_or(""),
                     options.messages_file.value_or(""), options.tools, options.chat_template});
    importance_file.emplace(options.imatrix);
  }
  const Interruptible interruptible;
  Engine engine(loaded.model, *loaded.tokenizer, context, engine_options);
  Finish finish = Finish::stop;
  const Usage usage = generate(engine, options.request, [&](const Event& event) {
    write_out(event.text);
    if (event.kind == Event::Kind::finished) finish = event.finish;
  });
  write_out("\n");
  if (importance) {
    check_mli_measured(*importance, loaded.model.path());
    write_mli(*importance_file, options.imatrix, *importance);
  }
  if (options.verbose) print_timings(engine, context, usage, open_seconds);
  if (finish == Finish::cancelled) throw CLI::RuntimeError(kInterrupted);
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Answer a prompt");
  auto options = std::make_shared<RunOptions>();
  add_answer_options(*command, *options);
  auto* prompt = command->add_option("-p,--prompt", options->prompt,
                                     "The prompt; without it and --file, standard input is read");
  command->add_option("-f,--file", options->prompt_file, "A file with the prompt")
      ->excludes(prompt)
      ->check(not_empty);
  command
      ->add_option(
          "--messages", options->messages_file,
          "A file with the conversation to go on with, as /save of krafla chat and OpenAI's clients write it")
      ->excludes("--prompt")
      ->excludes("--file")
      ->excludes("--system")
      ->check(not_empty);
  command->add_flag("--raw", options->raw, "Continue the prompt as it is, without the model's chat template")
      ->excludes("--messages")
      ->excludes("--tools");
  command
      ->add_option("--imatrix", options->imatrix,
                   "Write to this file which input channels mattered, for convert --imatrix")
      ->check(not_empty);
  command->add_flag("-v,--verbose", options->verbose,
                    "Print timings and memory at the end, to standard error");
  command->callback([options] { run(*options); });
}

}  // namespace krafla::cli
