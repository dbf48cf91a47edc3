#include "engine/answer_stream.h"

#include <algorithm>
#include <iterator>

namespace krafla {

AnswerStream::AnswerStream(const Tokenizer& tokenizer, const Request& request)
    : tokenizer_(tokenizer), decoder_(tokenizer, false, request.is_continuation), stop_(request.stop) {
  if (request.style) parser_.emplace(*request.style);
  for (const std::string& text : request.visible_control_tokens) visible_.push_back(tokenizer.find(text));
}

void AnswerStream::push(std::int32_t id, Event& event) {
  const bool hidden =
      tokenizer_.is_control(id) && std::find(visible_.begin(), visible_.end(), id) == visible_.end();
  if (!hidden) emit(stop_.feed(decoder_.push(id)), event);
}

void AnswerStream::finish(Event& event) {
  if (!stop_.stopped()) emit(stop_.feed(decoder_.finish()), event);
  emit(stop_.finish(), event);
  if (!parser_) return;
  std::vector<AnswerPart> rest = parser_->finish();
  std::move(rest.begin(), rest.end(), std::back_inserter(event.parts));
}

void AnswerStream::emit(const std::string& text, Event& event) {
  if (text.empty()) return;
  if (!parser_) {
    event.text += text;
    return;
  }
  std::vector<AnswerPart> parts = parser_->feed(text);
  std::move(parts.begin(), parts.end(), std::back_inserter(event.parts));
}

}  // namespace krafla
