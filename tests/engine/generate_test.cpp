#include "engine/generate.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "eval/importance.h"

namespace krafla {
namespace {

/// Single bytes, as many as fit in the model.
Tokenizer bytes(const Model& model) {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (int b = 0; b < 256; ++b) texts.emplace_back(1, static_cast<char>(b));
    return texts;
  }();
  Mlt mlt;
  for (std::size_t i = 0; i < kTexts.size() && i < model.header().vocab; ++i)
    mlt.tokens.push_back({kTexts[i], 0});
  return Tokenizer(mlt);
}

/// Models with full attention, a sliding window, linear layers, linear ones alone, and a window beside them.
class Cancelled : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t kChunk = 16;
  Generation answer(Session& session, std::function<bool()> cancelled) {
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = 5;
    options.chunk = kChunk;
    options.cancelled = std::move(cancelled);
    return generate(model_, tokenizer_, context_, session, prompt_, options);
  }
  Context context_{choose_kernels(nullptr), 2};
  Model model_{std::string(KRAFLA_TEST_DATA "/models/") + GetParam(), context_.threads};
  Tokenizer tokenizer_ = bytes(model_);
  std::vector<std::int32_t> prompt_ = [] {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(i * 7 % 3);
    return ids;
  }();
};

/// Wherever the prompt is stopped, what the session then holds is a beginning of it: going on gives the same
/// answer.
TEST_P(Cancelled, APromptStopsBetweenLayersAndCanBeGoneOnWith) {
  Session fresh(model_, KvType::f16);
  const std::vector<std::int32_t> want = answer(fresh, nullptr).ids;
  std::size_t stops = 0;
  for (bool in_prompt = true; in_prompt; ++stops) {
    Session session(model_, KvType::f16);
    std::size_t asked = 0;
    const Generation stopped = answer(session, [&] { return asked++ == stops; });
    in_prompt = stopped.ids.empty();
    if (!in_prompt) break;
    ASSERT_EQ(stopped.finish, Finish::cancelled);
    const std::size_t batch = stops / (1 + model_.mlb().layers.size());
    EXPECT_EQ(session.length(), (std::vector<std::size_t>{0, 16, 32, 34}).at(batch));
    EXPECT_EQ(answer(session, nullptr).ids, want) << stops;
  }
  EXPECT_EQ(stops, 4 * (1 + model_.mlb().layers.size()));  // before each batch, and before each of its layers
}

INSTANTIATE_TEST_SUITE_P(Models, Cancelled,
                         testing::Values("tiny-q4.mlb", "mistral_swa-q8.mlb", "linear-q8.mlb",
                                         "linear-only-q8.mlb", "linear-window-q4.mlb"),
                         [](const auto& file) {
                           std::string name = file.param;
                           name.resize(name.find('.'));
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Generate, AnImportanceMatrixCountsWholeBatches) {
  Context context(choose_kernels(nullptr), 1);
  const Model model(KRAFLA_TEST_DATA "/models/mistral_swa-q8.mlb", context.threads);
  Mli importance = empty_mli(model.header());
  GenerateOptions options;
  options.chunk = 16;
  ImportanceObserver observer(importance);
  options.observer = &observer;
  options.cancelled = [asked = 0]() mutable { return asked++ == 2; };
  const std::vector<std::int32_t> prompt(50, 1);
  EXPECT_EQ(generate(model, bytes(model), context, prompt, options).finish, Finish::cancelled);
  EXPECT_EQ(importance.layer_tokens, 32u);
}

}  // namespace
}  // namespace krafla
