#include "cli/answer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "cli/text.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Where a text stops being valid JSON.
std::string json_fault(std::string_view text) {
  if (nests_too_deep(text)) return fmt::format("it nests deeper than {}", kMostNested);
  try {
    const Json value = Json::parse(text);
    return {};
  } catch (const Json::parse_error& e) {
    const std::string_view before = text.substr(0, e.byte > 0 ? e.byte - 1 : 0);
    const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
    return fmt::format("line {}, column {}", std::count(before.begin(), before.end(), '\n') + 1,
                       before.size() - start + 1);
  }
}

/// CLI11 reads "-1" as a large unsigned number.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc() && end == text.data() + text.size()
             ? ""
             : fmt::format("{} is not from 0 to 2^64 - 1", text);
}

void add_sampling_options(CLI::App& command, AnswerOptions& options) {
  SamplingOptions& sampling = options.request.sampling;
  const char* group = "Sampling (defaults: the model's JSON, else the value given here)";
  command
      .add_option("--temperature,--temp", options.settings.temperature,
                  fmt::format("0 takes the likeliest token; {}", *kDefaultSampling.temperature))
      ->group(group);
  command
      .add_option("--top-k", options.settings.top_k,
                  fmt::format("Only the k likeliest; 0: all; {}", *kDefaultSampling.top_k))
      ->group(group);
  command
      .add_option("--top-p", options.settings.top_p,
                  fmt::format("Only the likeliest that make up p; {}", *kDefaultSampling.top_p))
      ->group(group);
  command
      .add_option(
          "--min-p", options.settings.min_p,
          fmt::format("Only those at least p times as likely as the likeliest; {}", *kDefaultSampling.min_p))
      ->group(group);
  command
      .add_option("--repetition-penalty", options.settings.repetition_penalty,
                  "Divides the logits of tokens seen; 1 is off")
      ->group(group);
  command
      .add_option("--presence-penalty", sampling.presence_penalty,
                  "Taken from the logits of tokens seen; 0 is off")
      ->group(group);
  command
      .add_option("--frequency-penalty", sampling.frequency_penalty, "The same for each time seen; 0 is off")
      ->group(group);
  command
      .add_option("--penalty-window", sampling.penalty_window, "Tokens that the penalties look back; -1: all")
      ->group(group);
  command.add_option("--seed", sampling.seed, "The same seed gives the same text, on every machine; 0")
      ->check(check_seed)
      ->group(group);
}

}  // namespace

void add_answer_options(CLI::App& command, AnswerOptions& options) {
  const auto count = CLI::Range(std::size_t{1}, std::size_t{1} << 24);
  add_compute_options(command, options.compute);
  command.add_option("--system", options.system, "The system message of the chat");
  command.add_option("--chat-template", options.chat_template,
                     "A template's file, or a built-in one: chatml, llama3 ...; the default is the model's");
  command
      .add_option("--tools", options.tools,
                  "A JSON file with an array of the functions that the model may call")
      ->check(not_empty);
  add_tokenizer_option(command, options.tokenizer);
  command
      .add_option("--ctx", options.request.context,
                  "Positions of prompt and answer at most; the default is the model's max_seq")
      ->check(count);
  command
      .add_option("-n,--max-tokens", options.request.max_tokens,
                  "Tokens of the answer at most; the default is what the context holds")
      ->check(count);
  add_kv_option(command, options.kv);
  command.add_flag_callback(
      "--lookup", [&options] { options.request.speculation = Speculation::lookup; },
      "Guess tokens from what came before, and check several at once: the same text, faster where it repeats "
      "itself");
  command
      .add_option_function<std::string>(
          "--draft-model",
          [&options](const std::string& name) {
            options.draft_model = name;
            options.request.speculation = Speculation::draft;
          },
          "A small model of the same vocabulary that guesses tokens ahead: the same text, faster")
      ->excludes("--lookup")
      ->check(not_empty);
  add_sampling_options(command, options);
}

AnswerModel::AnswerModel(const AnswerOptions& options)
    : context(make_context(options.compute)),
      loaded(load_model(options.compute.model, options.compute, context->threads)) {
  load_tokenizer(loaded, options.tokenizer);
  if (!options.draft_model.empty())
    draft.emplace(load_model(options.draft_model, options.compute, context->threads));
}

std::string read_chat_template(const std::string& option) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(option, ignored)) return option;
  std::string text = read_file(option);
  if (text.empty()) fail(ML_E_FORMAT, "{}: is empty; a chat template is needed", option);
  return text;
}

void check_has_template(const ConversationFormat& format, bool tools, const LoadedModel& loaded) {
  if (!format.has_template(tools))
    fail(ML_E_ARG, "{}: has no chat template; name one with --chat-template", loaded.files.json);
}

Json read_tools(const std::string& path, const ConversationFormat& format) {
  return format.read_tools(parse_json<Json>(read_file(path)), path);
}

Json read_messages(const std::string& path, bool tools, const ConversationFormat& format) {
  const std::string text = read_file(path);
  const auto json = parse_json<Json>(text);
  if (json.is_discarded()) fail(ML_E_FORMAT, "{}: is not valid JSON: {}", path, json_fault(text));
  if (!json.is_object())
    fail(ML_E_FORMAT,
         "{}: is not a conversation; that is an object {{\"messages\": [...]}}, as /save of krafla chat "
         "writes it",
         path);
  return format.read_messages(json.value("messages", Json()), tools, path);
}

double tokens_per_second(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail(ML_E_IO, "standard output cannot be written");
}

}  // namespace krafla::cli
