// What the commands that answer (run, chat) share: the model with its tokenizer and JSON, how tokens are
// chosen, what ends an answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "chat/parse_answer.h"
#include "cli/compute.h"
#include "engine/engine.h"
#include "engine/model_files.h"

namespace krafla::cli {

struct AnswerOptions {
  ComputeOptions compute;
  std::string system, tokenizer, chat_template, tools;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;  // unset: the model's
  std::optional<int> top_k;
  KvType kv = KvType::f16;
  Request request;
};

/// Declares MODEL and all options that say how to answer.
void add_answer_options(CLI::App& command, AnswerOptions& options);

/// A model's three files, open. The tokenizer belongs to the model: ML_E_SHAPE otherwise.
struct AnswerModel {
  explicit AnswerModel(const AnswerOptions& options);
  ModelFiles files;
  ModelInfo info;
  std::unique_ptr<Context> context;
  Model model;
  std::string mlt;
  Tokenizer tokenizer;
};

/// As asked for, else as the model's JSON says, else the program's defaults.
SamplingOptions sampling_of(const AnswerOptions& options, const SamplingDefaults& model);

/// The ids that end an answer. ML_E_FORMAT for one that the tokenizer does not have.
std::vector<std::int32_t> end_ids(const AnswerModel& loaded);

/// The text or the name of the template to use; empty: there is none. `--chat-template` takes a file's name
/// or a built-in one's; without it the model's template for tools is the one where there are tools.
std::string find_template(const AnswerOptions& options, const ModelInfo& info);

/// A conversation without messages: the special tokens and the tools of --tools. ML_E_FORMAT for a file that
/// has none, ML_E_ARG for a template that knows none.
ChatInput start_conversation(const AnswerOptions& options, const AnswerModel& loaded,
                             const ChatTemplate& chat_template);

/// The messages of a file, as `/save` and OpenAI's clients write them, for a template: contents in parts are
/// joined where it knows no parts. ML_E_FORMAT for another file, naming the message and its field.
nlohmann::ordered_json read_messages(const std::string& path, const ChatTemplate& chat_template);

/// How the model's answer to `prompt` is to be read; calls only where `tools` were given.
AnswerStyle answer_style(const ModelInfo& info, const Prompt& prompt, bool tools);

/// 0 where no time passed.
double tokens_per_second(std::size_t tokens, double seconds);

/// While it lives, Ctrl-C makes interrupted() true, which ends the answer; pressed again, it ends the
/// program, as at any other time.
class InterruptibleAnswer {
 public:
  InterruptibleAnswer();
  ~InterruptibleAnswer();
  InterruptibleAnswer(const InterruptibleAnswer&) = delete;
  InterruptibleAnswer& operator=(const InterruptibleAnswer&) = delete;
};
bool interrupted();

/// Writes and flushes standard output; ML_E_IO.
void write_out(std::string_view text);

}  // namespace krafla::cli
