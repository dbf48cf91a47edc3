#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/error.h"
#include "tokenizer/decode.h"

namespace krafla {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Feeds the prompt; the last row's logits are wanted. False if it was cancelled.
bool prefill(const Model& model, Context& context, Batch& batch, Sequence& sequence, std::span<const std::int32_t> prompt,
             const GenerateOptions& options) {
  std::vector<BatchRow> rows;
  for (std::size_t i = 0; i < prompt.size(); i += rows.size()) {
    if (options.cancelled && options.cancelled()) return false;
    rows.clear();
    for (std::size_t j = i; j < std::min(prompt.size(), i + options.chunk); ++j)
      rows.push_back({&sequence, prompt[j], j + 1 == prompt.size()});
    forward(model, context, batch, rows);
  }
  return true;
}

std::size_t context_limit(const Model& model, std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  const std::size_t limit = options.context != 0 ? options.context : model.header().max_seq;
  if (limit > model.header().max_seq)
    fail(ML_E_ARG, "a context of {} was asked for; the model's max_seq is {}", limit, model.header().max_seq);
  if (prompt.empty()) fail(ML_E_ARG, "the prompt is empty");
  if (prompt.size() >= limit)
    fail(ML_E_ARG, "the prompt has {} tokens; the context of {} leaves no room for an answer", prompt.size(), limit);
  return limit;
}

}  // namespace

Generation generate(const Model& model, const Tokenizer& tokenizer, Context& context, std::span<const std::int32_t> prompt,
                    const GenerateOptions& options) {
  const std::size_t limit = context_limit(model, prompt, options);
  Sampler sampler(options.sampling, std::min<std::size_t>(model.header().vocab, tokenizer.vocab_size()));
  StreamDecoder decoder(tokenizer, true);
  PagePool pool(KvLayout(model.mlb(), options.kv));
  Sequence sequence(pool);
  Batch batch;
  batch.importance = options.importance;
  std::vector<float> logits(model.header().vocab);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  Generation result;
  const auto emit = [&](const std::string& piece) {
    if (!piece.empty() && options.on_text) options.on_text(piece);
  };

  const auto start = Clock::now();
  bool running = prefill(model, context, batch, sequence, prompt, options);
  result.finish = Finish::cancelled;
  result.prompt_seconds = seconds_since(start);
  const auto answer_start = Clock::now();
  while (running) {
    classify(model, context, batch, 0, 1, logits.data());
    const std::int32_t id = sampler.sample(logits, text, {.position = static_cast<std::uint32_t>(text.size())});
    if (std::find(options.end_ids.begin(), options.end_ids.end(), id) != options.end_ids.end()) {
      result.finish = Finish::stop;
      break;
    }
    text.push_back(id);
    result.ids.push_back(id);
    emit(decoder.push(id));
    if (result.ids.size() >= options.max_tokens || text.size() >= limit) {
      result.finish = Finish::length;
      break;
    }
    if (options.cancelled && options.cancelled()) break;
    const BatchRow row{&sequence, id, true};
    forward(model, context, batch, {&row, 1});
  }
  emit(decoder.finish());
  result.answer_seconds = seconds_since(answer_start);
  result.kv_bytes = pool.bytes();
  return result;
}

}  // namespace krafla
