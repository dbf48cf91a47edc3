// Requests, their answers, and a tokenizer for the models of tests/data.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace krafla {

/// Single bytes, as many as fit in the model.
inline Tokenizer byte_tokenizer(const Model& model) {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (int b = 0; b < 256; ++b) texts.emplace_back(1, static_cast<char>(b));
    return texts;
  }();
  Mlt mlt;
  for (std::size_t i = 0; i < kTexts.size() && i < model.config().vocab; ++i)
    mlt.tokens.push_back({kTexts[i], 0});
  return Tokenizer(mlt);
}

/// What one choice of a request got.
struct Answer {
  std::vector<std::int32_t> ids;
  std::string text;
  std::vector<double> logprobs;  // of its tokens and of the likeliest in their place, one after the other
  Finish finish = Finish::stop;
  ml_status status = ML_OK;
  std::string message;
  bool ended = false;

  bool operator==(const Answer&) const = default;
};

struct Answers {
  std::vector<Answer> choices;
  std::vector<double> prompt_logprobs;
  Usage usage;
  bool done = false;

  explicit Answers(std::size_t n = 1) : choices(n) {}
  void add(const Event& event) {
    if (event.kind == Event::Kind::done) {
      EXPECT_FALSE(done);
      done = true;
      usage = event.usage;
      return;
    }
    Answer& answer = choices.at(event.choice);
    EXPECT_FALSE(done || answer.ended);
    for (const TokenLogprobs& logprobs : event.logprobs) {
      auto& to = event.kind == Event::Kind::prompt ? prompt_logprobs : answer.logprobs;
      to.push_back(logprobs.token.logprob);
      for (const TokenLogprob& top : logprobs.top) to.push_back(top.logprob + top.id);
    }
    answer.ids.insert(answer.ids.end(), event.ids.begin(), event.ids.end());
    answer.text += event.text;
    if (event.kind != Event::Kind::finished) return;
    answer.finish = event.finish;
    answer.status = event.status;
    answer.message = event.message;
    answer.ended = true;
  }
};

/// Runs a request on an engine where nothing else runs.
inline Answers run_alone(Engine& engine, const Request& request) {
  Answers answers(request.choices);
  RequestHandle handle = engine.submit(request);
  for (int steps = 0; !answers.done; ++steps) {
    engine.step();
    while (const auto event = handle.next()) answers.add(*event);
    if (steps > 10000) {
      ADD_FAILURE() << "the request does not end";
      break;
    }
  }
  return answers;
}

inline std::string test_model(const std::string& name) {
  return std::string(KRAFLA_TEST_DATA "/models/") + name;
}

/// Models with full attention, a sliding window, linear layers, linear ones alone, and a window beside them.
inline std::vector<std::string> engine_models() {
  return {"tiny-q4.mlb",          "mistral_swa-q8.mlb", "linear-q8.mlb",    "linear-only-q8.mlb",
          "linear-window-q4.mlb", "gemma3-like-q8.mlb", "gate-yarn-q4.mlb", "qwen3_5_v8-q4.mlb"};
}

/// A model file's name as the name of a test.
inline std::string test_name(const std::string& file) {
  std::string name = file.substr(0, file.find('.'));
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

}  // namespace krafla
