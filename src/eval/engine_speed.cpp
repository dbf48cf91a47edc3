#include "eval/engine_speed.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sample/philox.h"

namespace krafla {
namespace {

/// A text for every id, so that answers are decoded, too.
class AnyTokenizer {
 public:
  explicit AnyTokenizer(const Model& model) {
    for (std::size_t id = 0; id < model.config().vocab; ++id) texts_.push_back(std::to_string(id) + " ");
    for (const std::string& text : texts_) mlt_.tokens.push_back({text, 0});
  }
  Tokenizer make() const { return Tokenizer(mlt_); }

 private:
  std::vector<std::string> texts_;
  Mlt mlt_;
};

Request request_of(const Model& model, std::uint32_t number, std::size_t prompt, std::size_t answer) {
  Request request;
  for (std::uint32_t i = 0; i < prompt; ++i)
    request.prompt.push_back(
        static_cast<std::int32_t>(philox4x32({i, number, 0, 0}, {5, 0})[0] % model.config().vocab));
  request.max_tokens = answer;
  request.use_cache = false;
  request.sampling.temperature = 0.8f;
  request.sampling.top_k = 40;
  request.sampling.top_p = 0.95f;
  request.sampling.min_p = 0.05f;
  request.sampling.seed = number;
  return request;
}

/// A request as its reader sees it.
struct Stream {
  std::size_t joins = 0;  // at this step
  Request request;
  std::optional<RequestHandle> handle;
  std::optional<Clock::time_point> last;  // token
  bool answered = false, done = false;

  void read(Clock::time_point now, Served& served) {
    while (const auto event = handle->next()) {
      if (event->kind == Event::Kind::done) done = true;
      if (event->ids.empty()) continue;
      if (last) served.largest_gap = std::max(served.largest_gap, seconds_between(*last, now));
      last = now;
      answered = true;
      served.answer_tokens += event->ids.size();
    }
  }
};

}  // namespace

Served serve_joining(const Model& model, Context& context, const EngineOptions& options, std::size_t requests,
                     std::size_t prompt, std::size_t answer) {
  const Tokenizer tokenizer = AnyTokenizer(model).make();
  Engine engine(model, tokenizer, context, options);
  std::vector<Stream> streams(requests);
  for (std::uint32_t i = 0; i < requests; ++i) {
    streams[i].joins = i == 0 ? 0 : philox4x32({i, 0, 0, 0}, {6, 0})[0] % (2 * requests);
    streams[i].request = request_of(model, i, prompt, answer);
  }
  Served served{.requests = requests, .prompt_tokens = requests * prompt};
  const auto start = Clock::now();
  std::size_t left = requests;
  for (std::size_t step = 0; left > 0; ++step) {
    for (Stream& stream : streams)
      if (stream.joins == step) stream.handle.emplace(engine.submit(stream.request));
    engine.step();
    const auto now = Clock::now();
    for (Stream& stream : streams) {
      if (!stream.handle || stream.done) continue;
      stream.read(now, served);
      left -= stream.done ? 1 : 0;
    }
  }
  served.seconds = seconds_between(start, Clock::now());
  return served;
}

Served serve_beside_prompt(const Model& model, Context& context, const EngineOptions& options,
                           std::size_t streams, std::size_t prompt) {
  const Tokenizer tokenizer = AnyTokenizer(model).make();
  Engine engine(model, tokenizer, context, options);
  std::vector<Stream> talking(streams);
  for (std::uint32_t i = 0; i < streams; ++i)
    talking[i].handle.emplace(engine.submit(request_of(model, i, 16, model.config().max_seq)));
  Served warm;
  while (!std::all_of(talking.begin(), talking.end(), [](const Stream& stream) { return stream.answered; })) {
    engine.step();
    for (Stream& stream : talking) stream.read(Clock::now(), warm);
  }
  Stream reading;
  reading.handle.emplace(engine.submit(request_of(model, static_cast<std::uint32_t>(streams), prompt, 1)));
  Served served{.requests = streams, .prompt_tokens = prompt};
  const auto start = Clock::now();
  for (Stream& stream : talking) stream.last = start;
  Served prompts_own;
  while (!reading.done) {
    engine.step();
    const auto now = Clock::now();
    for (Stream& stream : talking) stream.read(now, served);
    reading.read(now, prompts_own);
  }
  served.seconds = seconds_between(start, Clock::now());
  return served;
}

}  // namespace krafla
