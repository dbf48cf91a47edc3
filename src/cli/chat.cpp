// `krafla chat`: a conversation in the terminal, or one message a line in a pipe.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/pluralized.h"
#include "chat/parse_answer.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/line_editor.h"
#include "cli/text.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "/help               this\n"
    "/tool TEXT          what the call gave, the first one without a result; after the last the model goes "
    "on\n"
    "/system TEXT        the system message; without TEXT: none. Begins anew\n"
    "/reset              begin anew\n"
    "/regen              answer the last message again\n"
    "/set NAME VALUE     temperature, top_k, top_p, min_p, repetition_penalty, seed, max_tokens, or a "
    "variable of the template\n"
    "/save FILE          write the conversation, as JSON\n"
    "/load FILE          go on with a saved one\n"
    "Ctrl-C stops an answer or clears the line; Ctrl-C or Ctrl-D in an empty line leaves. A message that "
    "begins with / needs a space "
    "before.\n";

/// Null where it is not there: a loaded file may hold anything.
Json value_at(const Json& json, const char* pointer) {
  const Json::json_pointer place(pointer);
  return json.contains(place) ? json[place] : Json();
}

bool has_role(const Json& message, const char* role) { return value_at(message, "/role") == role; }

struct ChatOptions : AnswerOptions {
  bool verbose = false;
};

class Chat {
 public:
  explicit Chat(ChatOptions& options)
      : options_(options),
        opened_(options),
        format_(loaded_, read_chat_template(options.chat_template)),
        engine_(loaded_.model, *loaded_.tokenizer, *opened_.context,
                {.kv = options.kv,
                 .cache_bytes = PagePool::kNoLimit,
                 .draft = opened_.draft ? &opened_.draft->model : nullptr}) {
    options_.request.sampling =
        with_settings(options.request.sampling, options.settings, loaded_.info.sampling);
    options_.request.end_ids = loaded_.end_ids;
    options_.request.cancelled = interrupted;
    check_has_template(format_, has_tools(), loaded_);
    if (has_tools()) input_.tools = read_tools(options.tools, format_);
    reset();
  }

  void run() {
    LineEditor lines("> ");
    if (lines.interactive())
      write_out(fmt::format("{}; /help tells what else can be said\n", loaded_.files.mlb));
    for (std::string line; lines.next(line);) {
      if (line.empty()) continue;
      try {
        line.starts_with('/') ? command(line) : say(line);
      } catch (const Error& e) {
        if (!lines.interactive() || std::ferror(stdout) != 0) throw;
        write_out(fmt::format("{}\n", e.what()));
      }
    }
    if (lines.interactive()) write_out("\n");
  }

 private:
  bool has_tools() const { return !options_.tools.empty(); }

  void reset() {
    input_.messages = Json::array();
    if (!options_.system.empty())
      input_.messages.push_back({{"role", "system"}, {"content", options_.system}});
  }

  void say(const std::string& text) {
    input_.messages.push_back({{"role", "user"}, {"content", text}});
    answer_or_take_back();
  }

  /// After an error, the last message is taken back.
  void answer_or_take_back() {
    try {
      answer();
    } catch (...) {
      input_.messages.erase(input_.messages.size() - 1);
      throw;
    }
  }

  void answer() {
    const ChatPrompt prompt = format_.encode(input_);
    std::string content, reasoning;
    Json calls = Json::array();
    const auto take = [&](const AnswerPart& part) {
      if (part.kind == AnswerPart::Kind::kText) content += part.text;
      if (part.kind == AnswerPart::Kind::kReasoning) reasoning += part.text;
      if (part.kind == AnswerPart::Kind::kToolCall) calls.push_back(call_message(part, calls.size()));
      show(part);
    };
    Request request = options_.request;
    request.prompt = prompt.ids;
    request.style = prompt.style;
    request.visible_control_tokens = prompt.visible_control_tokens;
    const Interruptible interruptible;
    Finish finish = Finish::stop;
    const Usage usage = generate(engine_, std::move(request), [&](const Event& event) {
      for (const AnswerPart& part : event.parts) take(part);
      if (event.kind == Event::Kind::finished) finish = event.finish;
    });
    write_out("\n");
    Json message = {{"role", "assistant"}, {"content", content}};
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    input_.messages.push_back(std::move(message));
    if (options_.verbose || terminal_) show_speed(usage, finish);
  }

  /// A call in the form that templates know. Some insist on an id of nine letters and digits.
  Json call_message(const AnswerPart& part, std::size_t number) const {
    const std::string id = fmt::format("call{:05}", (input_.messages.size() * 100 + number) % 100000);
    return {{"id", id},
            {"type", "function"},
            {"function", {{"name", part.name}, {"arguments", Json::parse(part.arguments)}}}};
  }

  /// A terminal gets the reasoning dimmed, without its markers, and no control characters. A pipe gets what
  /// the model wrote.
  void show(const AnswerPart& part) const {
    if (!terminal_) return write_out(part.text);
    if (part.kind == AnswerPart::Kind::kMarker) return write_out("\n");
    std::string text;
    for (std::size_t i = 0; i < part.text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(part.text[i]);
      const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
      const auto next = static_cast<unsigned char>(i + 1 < part.text.size() ? part.text[i + 1] : 0);
      if (byte == 0xc2 && next >= 0x80 &&
          next < 0xa0)  // U+0080 to U+009F: one of them begins commands, as ESC [ does
        text += fmt::format("\\x{:02x}", next), ++i;
      else
        text += control ? fmt::format("\\x{:02x}", byte) : std::string(1, part.text[i]);
    }
    write_out(part.kind == AnswerPart::Kind::kReasoning ? "\x1b[2m" + text + "\x1b[0m" : text);
  }

  void show_speed(const Usage& usage, Finish finish) const {
    std::fflush(stdout);
    std::fprintf(stderr, "[prompt %s, %zu of them known, %.1f tokens/s; answer %s, %.1f tokens/s%s]\n",
                 pluralized(usage.prompt_tokens, "token").c_str(), usage.cached_tokens,
                 tokens_per_second(usage.prompt_tokens - usage.cached_tokens, usage.prompt_seconds),
                 pluralized(usage.answer_tokens, "token").c_str(),
                 tokens_per_second(usage.answer_tokens, usage.answer_seconds),
                 finish == Finish::length      ? "; cut off"
                 : finish == Finish::cancelled ? "; stopped"
                                               : "");
  }

  void command(const std::string& line) {
    const std::size_t space = std::min(line.find_first_of(" \n"), line.size());
    const std::string name = line.substr(0, space), rest = space < line.size() ? line.substr(space + 1) : "";
    const bool alone = name == "/help" || name == "/reset" || name == "/regen";
    if (alone && !rest.empty()) fail(ML_E_ARG, "{}: stands alone, without \"{}\"", name, rest);
    if (name == "/help") return write_out(kHelp);
    if (name == "/reset") return reset();
    if (name == "/regen") return again();
    if (name == "/set") return set(rest);
    const std::string file = rest.substr(0, rest.find_last_not_of(' ') + 1);
    if (name == "/save") return save(file);
    if (name == "/load") return load(file);
    if (name == "/tool") return tool_result(rest);
    if (name != "/system")
      fail(ML_E_ARG,
           "{}: there is no such command; /help names them, Ctrl-D leaves. A message that begins with / "
           "needs a space before",
           name);
    options_.system = rest;
    reset();
  }

  /// The results come behind the calls, in their order.
  void tool_result(const std::string& text) {
    Json& messages = input_.messages;
    std::size_t results = 0;
    while (results < messages.size() && has_role(messages[messages.size() - 1 - results], "tool")) ++results;
    const Json calls =
        results < messages.size() ? value_at(messages[messages.size() - 1 - results], "/tool_calls") : Json();
    if (!calls.is_array() || results >= calls.size()) fail(ML_E_ARG, "/tool: no call waits for a result");
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", value_at(calls[results], "/id")},
                        {"name", value_at(calls[results], "/function/name")},
                        {"content", text}});
    if (results + 1 == calls.size()) answer_or_take_back();
  }

  /// Another answer needs other random numbers.
  void again() {
    Json& messages = input_.messages;
    if (messages.empty() || !has_role(messages.back(), "assistant")) fail(ML_E_ARG, "there is no answer yet");
    const Json old = messages.back();
    messages.erase(messages.size() - 1);
    ++options_.request.sampling.seed;
    try {
      answer();
    } catch (...) {
      messages.push_back(old);
      throw;
    }
  }

  void set(const std::string& text) {
    const std::size_t space = text.find(' ');
    if (space == 0 || space + 1 >= text.size() || space == std::string::npos)
      fail(ML_E_ARG, "/set NAME VALUE: a name or a value is missing");
    const std::string name = text.substr(0, space), value = text.substr(space + 1);
    const auto json = parse_json<Json>(value);
    SamplingOptions& sampling = options_.request.sampling;
    const auto number = [&]() -> const Json& {
      if (!json.is_number()) fail(ML_E_ARG, "/set {}: \"{}\" is not a number", name, value);
      return json;
    };
    const auto whole = [&](std::int64_t least, std::int64_t most) {
      if (!number().is_number_integer() || json.get<std::int64_t>() < least ||
          json.get<std::int64_t>() > most)
        fail(ML_E_ARG, "/set {}: \"{}\" is invalid; allowed: a whole number from {} to {}", name, value,
             least, most);
      return json.get<std::int64_t>();
    };
    for (const char* own :
         {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"})
      if (name == own) fail(ML_E_ARG, "/set {}: the chat itself gives this to the template", name);
    SamplingOptions changed = sampling;
    if (name == "temperature")
      changed.temperature = number().get<float>();
    else if (name == "top_p")
      changed.top_p = number().get<float>();
    else if (name == "min_p")
      changed.min_p = number().get<float>();
    else if (name == "repetition_penalty")
      changed.repetition_penalty = number().get<float>();
    else if (name == "top_k")
      changed.top_k = static_cast<int>(whole(0, std::numeric_limits<int>::max()));
    else if (name == "seed")
      changed.seed = static_cast<std::uint64_t>(whole(0, std::numeric_limits<std::int64_t>::max()));
    else if (name == "max_tokens")
      options_.request.max_tokens =
          static_cast<std::size_t>(whole(1, std::numeric_limits<std::int32_t>::max()));
    else
      input_.variables[name] = json.is_discarded() ? Json(value) : json;
    check_sampling_options(changed, loaded_.tokenizer->vocab_size());
    sampling = changed;
  }

  void save(const std::string& path) const {
    if (path.empty()) fail(ML_E_ARG, "/save FILE: the file's name is missing");
    check_not_input("/save", path, loaded_.files,
                    {loaded_.tokenizer_file, options_.tools, options_.chat_template});
    OutputFile file(path);
    const std::string text =
        Json{{"messages", input_.messages}}.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    file.write(text.data(), text.size());
    file.commit();
  }

  void load(const std::string& path) {
    if (path.empty()) fail(ML_E_ARG, "/load FILE: the file's name is missing");
    const ChatInput before = input_;
    input_.messages = read_messages(path, has_tools(), format_);
    try {
      format_.encode(input_);  // a template may refuse them
    } catch (...) {
      input_ = before;
      throw;
    }
  }

  ChatOptions& options_;
  AnswerModel opened_;
  const LoadedModel& loaded_ = opened_.loaded;
  ConversationFormat format_;
  Engine engine_;
  ChatInput input_;
  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
};

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a model; in a pipe, each line is a message");
  auto options = std::make_shared<ChatOptions>();
  add_answer_options(*command, *options);
  command->add_flag("-v,--verbose", options->verbose,
                    "Print the speed of each answer to standard error; a terminal gets it anyway");
  command->callback([options] { Chat(*options).run(); });
}

}  // namespace krafla::cli
