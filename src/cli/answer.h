// What the commands that answer (run, chat) share: the model with its tokenizer and JSON, how tokens are
// chosen, what ends an answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/compute.h"
#include "cli/interrupt.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/sampling_settings.h"

namespace krafla::cli {

struct AnswerOptions {
  ComputeOptions compute;
  std::string system, tokenizer, chat_template, tools;
  SamplingSettings settings;  // those that the model's JSON may give too
  std::string draft_model;    // empty: none
  KvType kv = KvType::f16;
  Request request;
};

/// Declares MODEL and all options that say how to answer.
void add_answer_options(CLI::App& command, AnswerOptions& options);

/// A model with its tokenizer, and what computes it. Errors as LoadedModel's.
struct AnswerModel {
  explicit AnswerModel(const AnswerOptions& options);
  std::unique_ptr<Context> context;
  LoadedModel loaded;
  std::optional<LoadedModel> draft;  // of --draft-model
};

/// What --chat-template names: a file's text, else the option itself, which names a built-in template or is
/// empty. ML_E_FORMAT for an empty file.
std::string read_chat_template(const std::string& option);

/// ML_E_ARG if there is no template for conversations with tools, or without.
void check_has_template(const ConversationFormat& format, bool tools, const LoadedModel& loaded);

/// The tools of the JSON file `path`. Errors as ConversationFormat::read_tools().
nlohmann::ordered_json read_tools(const std::string& path, const ConversationFormat& format);

/// The messages of a file, as `/save` and OpenAI's clients write them: {"messages": [...]}. ML_E_FORMAT for
/// another file, naming the message and its field.
nlohmann::ordered_json read_messages(const std::string& path, bool tools, const ConversationFormat& format);

/// 0 where no time passed.
double tokens_per_second(std::size_t tokens, double seconds);

/// Writes and flushes standard output; ML_E_IO.
void write_out(std::string_view text);

}  // namespace krafla::cli
