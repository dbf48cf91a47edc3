// The text of one answer as its tokens come: decoded, cut at stop strings, taken apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chat/parse_answer.h"
#include "engine/request.h"
#include "engine/stop_strings.h"
#include "tokenizer/decode.h"

namespace krafla {

class AnswerStream {
 public:
  AnswerStream(const Tokenizer& tokenizer, const Request& request);
  /// Adds what is certain after this token to the event's text or parts.
  void push(std::int32_t id, Event& event);
  /// The same for what waits: the answer is over.
  void finish(Event& event);
  /// Whether a stop string came.
  bool stopped() const { return stop_.stopped(); }

 private:
  void emit(const std::string& text, Event& event);

  const Tokenizer& tokenizer_;
  StreamDecoder decoder_;
  StopStrings stop_;
  std::optional<AnswerParser> parser_;
  std::vector<std::int32_t> visible_;  // control tokens
};

}  // namespace krafla
