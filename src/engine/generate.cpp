#include "engine/generate.h"

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "tokenizer/decode.h"

namespace krafla {
namespace {

/// Feeds what the session lacks of the prompt; the last row's logits are wanted. False if it was cancelled.
/// Where an importance matrix is collected, batches are gone through to their end.
bool prefill(const Model& model, Context& context, Batch& batch, Session& session,
             std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  // The next prompt may differ from this one in how the answer is opened.
  constexpr std::size_t kOpening = 16;
  const std::size_t place = prompt.size() > kOpening ? prompt.size() - kOpening : 0;
  if (options.observer == nullptr) batch.cancelled = options.cancelled;
  while (session.length() < prompt.size()) {
    if (options.cancelled && options.cancelled()) return false;
    const std::size_t at = session.length();
    const std::size_t end = std::min({prompt.size(), at + options.chunk, at < place ? place : prompt.size()});
    if (!session.feed(model, context, batch, prompt.subspan(at, end - at), end == prompt.size()))
      return false;
    if (end == place || end == prompt.size()) session.keep();
  }
  batch.cancelled = nullptr;
  return true;
}

std::size_t context_limit(const Model& model, std::span<const std::int32_t> prompt,
                          const GenerateOptions& options) {
  const std::size_t limit = options.context != 0 ? options.context : model.header().max_seq;
  if (limit > model.header().max_seq)
    fail(ML_E_ARG, "a context of {} was asked for; the model's max_seq is {}", limit, model.header().max_seq);
  if (prompt.empty()) fail(ML_E_ARG, "the prompt is empty");
  if (prompt.size() >= limit)
    fail(ML_E_ARG, "the prompt has {}; the context of {} leaves no room for an answer",
         counted(prompt.size(), "token"), limit);
  return limit;
}

/// The answer's text as its tokens come: without control tokens, but for those that are asked for.
class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, const GenerateOptions& options)
      : tokenizer_(tokenizer),
        on_text_(options.on_text),
        decoder_(tokenizer, false, options.is_continuation) {
    for (const std::string& text : options.visible_control_tokens) shown_.push_back(tokenizer.find(text));
  }
  void push(std::int32_t id) {
    if (!tokenizer_.is_control(id) || std::find(shown_.begin(), shown_.end(), id) != shown_.end())
      emit(decoder_.push(id));
  }
  void finish() { emit(decoder_.finish()); }

 private:
  void emit(const std::string& piece) const {
    if (!piece.empty() && on_text_) on_text_(piece);
  }
  const Tokenizer& tokenizer_;
  const std::function<void(std::string_view)>& on_text_;
  StreamDecoder decoder_;
  std::vector<std::int32_t> shown_;
};

}  // namespace

bool Session::rewinds() const { return pool_->layout().keeps_past(); }

std::size_t Session::reuse(std::span<const std::int32_t> prompt) {
  const auto shared = [&](const State& state) {
    const std::size_t most = std::min(state.ids.size(), prompt.empty() ? 0 : prompt.size() - 1);
    return static_cast<std::size_t>(std::mismatch(state.ids.begin(),
                                                  state.ids.begin() + static_cast<std::ptrdiff_t>(most),
                                                  prompt.begin())
                                        .first -
                                    state.ids.begin());
  };
  std::erase_if(kept_, [&](const State& state) { return shared(state) < state.ids.size(); });
  const std::size_t same = shared(now_);
  if (same == now_.ids.size()) return same;
  if (rewinds()) {
    now_.sequence.rewind(same);
    now_.ids.resize(same);
  } else if (kept_.empty()) {
    now_ = {Sequence(*pool_), {}};
  } else {
    now_ = kept_.back();
  }
  return now_.ids.size();
}

bool Session::feed(const Model& model, Context& context, Batch& batch, std::span<const std::int32_t> tokens,
                   bool last_wanted) {
  const Feed feed{&now_.sequence, tokens, last_wanted ? Wants::last : Wants::none};
  if (!forward(model, context, batch, {&feed, 1})) return false;
  now_.ids.insert(now_.ids.end(), tokens.begin(), tokens.end());
  return true;
}

void Session::keep() {
  constexpr std::size_t kPlaces = 4;
  if (rewinds() || now_.ids.empty()) return;
  if (kept_.size() == kPlaces) kept_.erase(kept_.begin());
  kept_.push_back(now_);
}

Generation generate(const Model& model, const Tokenizer& tokenizer, Context& context,
                    std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  Session session(model, options.kv);
  return generate(model, tokenizer, context, session, prompt, options);
}

Generation generate(const Model& model, const Tokenizer& tokenizer, Context& context, Session& session,
                    std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  const std::size_t limit = context_limit(model, prompt, options);
  Sampler sampler(options.sampling, std::min<std::size_t>(model.header().vocab, tokenizer.vocab_size()));
  AnswerText answer(tokenizer, options);
  Batch batch;
  batch.observer = options.observer;
  std::vector<float> logits(model.header().vocab);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  Generation result;

  const auto start = Clock::now();
  result.reused = session.reuse(prompt);
  const bool running = prefill(model, context, batch, session, prompt, options);
  result.finish = Finish::cancelled;
  result.prompt_seconds = seconds_since(start);
  const auto answer_start = Clock::now();
  while (running) {
    classify(model, context, batch, 0, 1, logits.data());
    const std::int32_t id =
        sampler.sample(logits, text, {.position = static_cast<std::uint32_t>(text.size())});
    if (std::find(options.end_ids.begin(), options.end_ids.end(), id) != options.end_ids.end()) {
      result.finish = Finish::stop;
      break;
    }
    text.push_back(id);
    result.ids.push_back(id);
    answer.push(id);
    if (result.ids.size() >= options.max_tokens || text.size() >= limit) {
      result.finish = Finish::length;
      break;
    }
    if (options.cancelled && options.cancelled()) break;
    session.feed(model, context, batch, {&id, 1}, true);
  }
  answer.finish();
  result.answer_seconds = seconds_since(answer_start);
  result.kv_bytes = session.kv_bytes();
  return result;
}

}  // namespace krafla
