#include "cli/answer.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "chat/messages.h"
#include "cli/text.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What a user gets who asks for nothing, where the model's JSON says nothing either: the defaults people
/// know from llama.cpp.
constexpr float kTemperature = 0.8f, kTopP = 0.95f, kMinP = 0.05f;
constexpr int kTopK = 40;

volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int) {
  interrupts = 1;
  std::signal(SIGINT, SIG_DFL);
}

/// Where a text that is no JSON goes wrong.
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
      .add_option("--temperature,--temp", options.temperature,
                  fmt::format("0 takes the likeliest token; {}", kTemperature))
      ->group(group);
  command.add_option("--top-k", options.top_k, fmt::format("Only the k likeliest; 0: all; {}", kTopK))
      ->group(group);
  command.add_option("--top-p", options.top_p, fmt::format("Only the likeliest that make up p; {}", kTopP))
      ->group(group);
  command
      .add_option("--min-p", options.min_p,
                  fmt::format("Only those at least p times as likely as the likeliest; {}", kMinP))
      ->group(group);
  command
      .add_option("--repetition-penalty", options.repetition_penalty,
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
  command
      .add_option("-z,--tokenizer", options.tokenizer,
                  "The .mlt file; the default is the one beside the model")
      ->check(not_empty);
  command
      .add_option("--ctx", options.request.context,
                  "Positions of prompt and answer at most; the default is the model's max_seq")
      ->check(count);
  command
      .add_option("-n,--max-tokens", options.request.max_tokens,
                  "Tokens of the answer at most; the default is what the context holds")
      ->check(count);
  add_kv_option(command, options.kv);
  add_sampling_options(command, options);
}

// A tokenizer from elsewhere need not have the JSON's control ids: then all its added tokens count as such.
AnswerModel::AnswerModel(const AnswerOptions& options)
    : files(find_model_files(options.compute.model)),
      info(read_model_info(files.json)),
      context(make_context(options.compute)),
      model(open_model(options.compute, *context)),
      mlt(options.tokenizer.empty() ? files.mlt : find_tokenizer(options.tokenizer)),
      tokenizer(open_tokenizer(mlt, model, mlt == files.mlt ? info.control_ids : std::nullopt)) {}

SamplingOptions sampling_of(const AnswerOptions& options, const SamplingDefaults& model) {
  SamplingOptions out = options.request.sampling;
  out.temperature = options.temperature.value_or(model.temperature.value_or(kTemperature));
  out.top_k = options.top_k.value_or(model.top_k.value_or(kTopK));
  out.top_p = options.top_p.value_or(model.top_p.value_or(kTopP));
  out.min_p = options.min_p.value_or(model.min_p.value_or(kMinP));
  out.repetition_penalty = options.repetition_penalty.value_or(model.repetition_penalty.value_or(1.0f));
  return out;
}

std::vector<std::int32_t> end_ids(const AnswerModel& loaded) {
  const Tokenizer& tokenizer = loaded.tokenizer;
  std::vector<std::int32_t> ids = loaded.info.end_ids;
  for (const std::int32_t id : ids)
    if (static_cast<std::size_t>(id) >= tokenizer.vocab_size())
      fail(ML_E_FORMAT, "{}: \"end_ids\" has {}; the tokenizer's ids are 0 to {}", loaded.files.json, id,
           tokenizer.vocab_size() - 1);
  if (tokenizer.eos() >= 0) ids.push_back(tokenizer.eos());
  return ids;
}

std::string find_template(const AnswerOptions& options, const ModelInfo& info) {
  if (options.chat_template.empty())
    return options.tools.empty() || info.tool_template.empty() ? info.chat_template : info.tool_template;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.chat_template, ignored)) return options.chat_template;
  return read_file(options.chat_template);
}

ChatInput start_conversation(const AnswerOptions& options, const AnswerModel& loaded,
                             const ChatTemplate& chat_template) {
  ChatInput input;
  const auto text_of = [&](std::int32_t id) {
    return id < 0 ? std::string() : std::string(loaded.tokenizer.token_bytes(id));
  };
  input.tokens = {text_of(loaded.info.bos.value_or(loaded.tokenizer.bos())), text_of(loaded.tokenizer.eos())};
  if (options.tools.empty()) return input;
  if (!chat_template.mentions("tools"))
    fail(ML_E_ARG, "--tools {}: the chat template knows no tools", options.tools);
  input.tools = parse_json<Json>(read_file(options.tools));
  const bool objects = input.tools.is_array() && std::all_of(input.tools.begin(), input.tools.end(),
                                                             [](const Json& t) { return t.is_object(); });
  if (!objects || input.tools.empty())
    fail(ML_E_FORMAT, "{}: is no JSON array of functions, each an object", options.tools);
  return input;
}

Json read_messages(const std::string& path, const ChatTemplate& chat_template) {
  const std::string text = read_file(path);
  const auto json = parse_json<Json>(text);
  if (json.is_discarded()) fail(ML_E_FORMAT, "{}: is not valid JSON: {}", path, json_fault(text));
  if (!json.is_object())
    fail(ML_E_FORMAT,
         "{}: is no conversation: it must be an object {{\"messages\": [...]}}, as /save of krafla chat "
         "writes it",
         path);
  Json messages = json.value("messages", Json());
  if (const std::string fault = find_fault(messages); !fault.empty())
    fail(ML_E_FORMAT, "{}: {}", path, fault);
  if (!chat_template.takes_parts()) join_parts(messages);
  return messages;
}

AnswerStyle answer_style(const ModelInfo& info, const Prompt& prompt, bool tools) {
  AnswerStyle style{info.reasoning_open, info.reasoning_close, false,
                    tools ? tool_format(info.tools) : ToolFormat::kNone};
  const std::string_view text =
      std::string_view(prompt.text).substr(0, prompt.text.find_last_not_of(" \n") + 1);
  style.reasoning_opened = !style.reasoning_open.empty() && text.ends_with(style.reasoning_open);
  return style;
}

double tokens_per_second(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

InterruptibleAnswer::InterruptibleAnswer() {
  interrupts = 0;
  std::signal(SIGINT, on_interrupt);
}

InterruptibleAnswer::~InterruptibleAnswer() { std::signal(SIGINT, SIG_DFL); }

bool interrupted() { return interrupts != 0; }

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail(ML_E_IO, "standard output cannot be written");
}

}  // namespace krafla::cli
