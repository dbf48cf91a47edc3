// What a request gets from the engine depends on it alone.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../engine/engine_test_tools.h"
#include "eval/importance.h"
#include "sample/philox.h"

namespace krafla {
namespace {

/// Random numbers that are the same everywhere.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : seed_(seed) {}
  /// From 0 to n - 1.
  std::size_t operator()(std::size_t n) { return philox4x32({count_++, 0, 0, 0}, {seed_, 7})[0] % n; }

 private:
  std::uint32_t seed_, count_ = 0;
};

class Engines : public testing::TestWithParam<std::string> {
 protected:
  std::vector<std::int32_t> ids(Dice& dice, std::size_t n) const {
    std::vector<std::int32_t> out;
    for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<std::int32_t>(dice(vocab_)));
    return out;
  }
  std::size_t room() const { return std::min<std::size_t>(model_.config().max_seq, 256); }
  Request request(std::vector<std::int32_t> prompt, std::size_t max_tokens) const {
    Request out;
    out.prompt = std::move(prompt);
    out.max_tokens = max_tokens;
    out.sampling.temperature = 0;
    return out;
  }
  /// Any kind of request. Prompts begin like earlier ones now and then.
  Request random_request(Dice& dice, std::vector<std::vector<std::int32_t>>& prompts) const;
  Answers alone(const Request& r) {
    Engine engine(model_, tokenizer_, context_, {.kv = kv_, .cache_bytes = 0});
    Request plain = r;
    plain.speculation = Speculation::none;
    plain.deadline.reset();
    return run_alone(engine, plain);
  }

  Context context_{choose_kernels(nullptr), 2};
  Model model_{test_model(GetParam()), context_.threads};
  Tokenizer tokenizer_ = byte_tokenizer(model_);
  std::size_t vocab_ = std::min<std::size_t>(model_.config().vocab, tokenizer_.vocab_size());
  KvType kv_ = KvType::f16;
};

Request Engines::random_request(Dice& dice, std::vector<std::vector<std::int32_t>>& prompts) const {
  std::vector<std::int32_t> prompt;
  if (!prompts.empty() && dice(3) != 0) {
    prompt = prompts[dice(prompts.size())];
    if (dice(2) == 0) prompt.resize(dice(prompt.size() + 1));
  }
  const std::size_t most = room() - 30;
  for (const std::int32_t id : ids(dice, 1 + dice(dice(4) == 0 ? most - 1 : 20))) prompt.push_back(id);
  prompt.resize(std::min(prompt.size(), most));
  prompts.push_back(prompt);
  Request r = request(prompt, 1 + dice(25));
  r.sampling.seed = dice(1000);
  r.sampling.temperature = dice(3) == 0 ? 0.0f : 1.5f;
  r.sampling.top_k = dice(2) == 0 ? 0 : 5;
  if (dice(3) == 0) r.sampling.repetition_penalty = 1.3f;
  if (dice(4) == 0) r.sampling.penalty_window = 10;
  if (dice(4) == 0) r.sampling.logit_bias = {{1, 2.5f}};
  if (dice(3) == 0) r.end_ids = {2};
  if (dice(3) == 0) r.logprobs = dice(4);
  if (r.logprobs && dice(2) == 0) r.prompt_logprobs = true;
  if (dice(3) == 0) r.stop = {std::string("\x00\x01", 2), "\x02\x02\x01"};
  if (dice(4) == 0) r.choices = 1 + dice(3);
  if (dice(2) == 0) r.speculation = Speculation::lookup;
  if (dice(5) == 0) r.use_cache = false;
  if (dice(5) == 0) r.context = prompt.size() + 1 + dice(20);
  r.draft_tokens = 1 + dice(8);
  return r;
}

/// Requests that join at random, some of which are cancelled.
class Schedule {
 public:
  struct Entry {
    Request request;
    std::optional<RequestHandle> handle;
    Answers answers;
    std::size_t joins = 0, leaves = static_cast<std::size_t>(-1);  // at steps
  };
  void add(Entry entry) { entries_.push_back(std::move(entry)); }
  std::vector<Entry>& entries() { return entries_; }

  void run(Engine& engine) {
    std::size_t left = entries_.size();
    for (std::size_t step = 0; left > 0; ++step) {
      ASSERT_LT(step, 20000u) << "some requests do not end";
      for (Entry& e : entries_) {
        if (e.joins == step) e.handle.emplace(engine.submit(e.request));
        if (e.leaves == step && e.handle) e.handle->cancel();
      }
      engine.step();
      for (Entry& e : entries_)
        while (e.handle && !e.answers.done)
          if (const auto event = e.handle->next()) {
            e.answers.add(*event);
            left -= e.answers.done ? 1 : 0;
          } else {
            break;
          }
    }
  }

 private:
  std::vector<Entry> entries_;
};

/// `got` is `want`, or where it was cancelled a beginning of it.
void expect_same(const Answers& got, const Answers& want, bool cancelled) {
  for (std::size_t c = 0; c < want.choices.size(); ++c) {
    const Answer &g = got.choices[c], &w = want.choices[c];
    if (!cancelled || g.finish != Finish::cancelled) {
      EXPECT_EQ(g.ids, w.ids);
      EXPECT_EQ(g.text, w.text);
      EXPECT_EQ(g.logprobs, w.logprobs);
      EXPECT_EQ(g.finish, w.finish);
      EXPECT_EQ(g.status, w.status) << g.message;
      continue;
    }
    ASSERT_LE(g.ids.size(), w.ids.size());
    EXPECT_TRUE(std::equal(g.ids.begin(), g.ids.end(), w.ids.begin()));
    EXPECT_TRUE(std::equal(g.logprobs.begin(), g.logprobs.end(), w.logprobs.begin()));
  }
  if (!cancelled) {
    EXPECT_EQ(got.prompt_logprobs, want.prompt_logprobs);
  }
}

TEST_P(Engines, ARequestGetsTheSameWhateverElseRuns) {
  for (const KvType kv : {KvType::f16, KvType::f32, KvType::q8_0}) {
    kv_ = kv;
    Dice dice(static_cast<std::uint32_t>(kv) + 100);
    std::vector<std::vector<std::int32_t>> prompts;
    Schedule schedule;
    for (std::size_t i = 0; i < 24; ++i) {
      Schedule::Entry entry{.request = random_request(dice, prompts), .handle = {}, .answers = Answers()};
      entry.answers = Answers(entry.request.choices);
      entry.joins = dice(40);
      if (dice(5) == 0) entry.leaves = entry.joins + dice(15);
      schedule.add(std::move(entry));
    }
    // Room for a few of them, so that some are paused and cached texts are forgotten.
    const KvLayout layout(model_.config(), kv);
    std::size_t pages = 0;
    for (const auto group : {KvLayout::full, KvLayout::windowed}) pages += layout.page_bytes(group);
    Engine engine(model_, tokenizer_, context_,
                  {.kv = kv,
                   .kv_bytes = 26 * pages + 16 * layout.page_bytes(KvLayout::linear),
                   .chunk = 40,
                   .mixed_chunk = 9,
                   .checkpoint_every = 32,
                   .max_running = 9});
    schedule.run(engine);
    for (Schedule::Entry& e : schedule.entries()) {
      SCOPED_TRACE(testing::Message()
                   << "prompt of " << e.request.prompt.size() << ", kv " << kv_type_name(kv));
      expect_same(e.answers, alone(e.request), e.leaves != static_cast<std::size_t>(-1));
    }
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.running + stats.waiting, 0u);
    if (layout.keeps_past()) {
      EXPECT_GT(stats.cached_tokens, 0u);
    }
    EXPECT_LE(stats.kv_used, stats.kv_limit);
    EXPECT_EQ(stats.kv_used, stats.cache_used);  // nothing but the cache holds pages
  }
}

/// The last turn of a conversation computes its new tokens alone.
TEST_P(Engines, ALongChatComputesOnlyWhatIsNew) {
  Engine engine(model_, tokenizer_, context_, {.checkpoint_every = 32});
  Dice dice(3);
  std::vector<std::int32_t> text;
  const std::size_t turn = room() / 34;  // of a message, and of an answer
  for (int turns = 0; turns < 15; ++turns) {
    const std::size_t known = text.size();
    for (const std::int32_t id : ids(dice, turn)) text.push_back(id);
    const Answers answers = run_alone(engine, request(text, turn));
    // The last token of an answer that was cut off has not been read.
    EXPECT_EQ(answers.usage.cached_tokens, known == 0 ? 0 : known - 1) << turns;
    EXPECT_EQ(answers.choices[0].ids, alone(request(text, turn)).choices[0].ids);
    text.insert(text.end(), answers.choices[0].ids.begin(), answers.choices[0].ids.end());
  }
}

/// Wherever a prompt is given up, between steps or layers, what is kept is a beginning of it.
TEST_P(Engines, APromptIsGivenUpBetweenLayersAndCanBeGoneOnWith) {
  Dice dice(5);
  Request r = request(ids(dice, 50), 5);
  const std::vector<std::int32_t> want = alone(r).choices[0].ids;
  std::size_t stops = 0;
  for (bool in_prompt = true; in_prompt; ++stops) {
    Engine engine(model_, tokenizer_, context_, {.chunk = 16});
    Request stopped = r;
    std::size_t asked = 0;
    stopped.cancelled = [&] { return asked++ == stops; };
    const Answers first = run_alone(engine, stopped);
    in_prompt = first.choices[0].ids.empty();
    if (in_prompt) {
      EXPECT_EQ(first.choices[0].finish, Finish::cancelled);
    }
    const Answers second = run_alone(engine, r);
    EXPECT_EQ(second.choices[0].ids, want) << stops;
    EXPECT_LE(second.usage.cached_tokens, 49u);
  }
  EXPECT_GT(stops, 3 * model_.config().layers.size());
}

TEST_P(Engines, SpeculationChangesNothingAndIsRightOftenWhereTextRepeats) {
  Dice dice(11);
  std::vector<std::int32_t> prompt = ids(dice, 6);
  while (prompt.size() < 40) prompt.push_back(prompt[prompt.size() - 6]);
  std::size_t drafted = 0;
  for (const float temperature : {0.0f, 1.0f}) {
    Request r = request(prompt, 40);
    r.sampling.temperature = temperature;
    const Answers want = alone(r);
    for (const Speculation kind : {Speculation::lookup, Speculation::draft}) {
      if (kind == Speculation::draft && !KvLayout(model_.config(), KvType::f16).keeps_past()) continue;
      Engine engine(model_, tokenizer_, context_, {.draft = kind == Speculation::draft ? &model_ : nullptr});
      r.speculation = kind;
      const Answers got = run_alone(engine, r);
      expect_same(got, want, false);
      drafted += got.usage.drafted_tokens;
      EXPECT_LE(got.usage.accepted_tokens, got.usage.drafted_tokens);
      // A model that guesses for itself is always right where nothing is left to chance.
      if (kind == Speculation::draft && temperature == 0) {
        EXPECT_EQ(got.usage.accepted_tokens, got.usage.drafted_tokens);
      }
    }
  }
  EXPECT_GT(drafted, 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, Engines, testing::ValuesIn(engine_models()),
                         [](const auto& file) { return test_name(file.param); });

class Engine1 : public testing::Test {
 protected:
  Request request(std::size_t prompt, std::size_t max_tokens) const {
    Request r;
    for (std::size_t i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<std::int32_t>(i * 7 % 3));
    r.max_tokens = max_tokens;
    r.sampling.temperature = 0;
    return r;
  }
  template <class Action>
  static ml_status status_of(Action&& action) {
    try {
      action();
    } catch (const Error& e) {
      return e.status();
    }
    return ML_OK;
  }
  Context context_{choose_kernels(nullptr), 2};
  Model model_{test_model("mistral_swa-q8.mlb"), context_.threads};
  Tokenizer tokenizer_ = byte_tokenizer(model_);
};

TEST_F(Engine1, RefusesWhatItCannotDo) {
  Engine engine(model_, tokenizer_, context_, {.kv_bytes = 1 << 20, .max_waiting = 2});
  const auto refused = [&](ml_status status, auto&& change) {
    Request r = request(5, 5);
    change(r);
    EXPECT_EQ(status_of([&] { engine.submit(std::move(r)); }), status);
  };
  refused(ML_E_ARG, [](Request& r) { r.prompt.clear(); });
  refused(ML_E_ARG, [](Request& r) { r.prompt[2] = -1; });
  refused(ML_E_ARG, [&](Request& r) { r.prompt[2] = static_cast<std::int32_t>(model_.config().vocab); });
  refused(ML_E_ARG, [](Request& r) { r.context = 5; });
  refused(ML_E_ARG, [&](Request& r) { r.context = model_.config().max_seq + 1; });
  refused(ML_E_ARG, [](Request& r) { r.choices = 0; });
  refused(ML_E_ARG, [](Request& r) { r.choices = 65; });
  refused(ML_E_ARG, [](Request& r) { r.max_tokens = 0; });
  refused(ML_E_ARG, [](Request& r) { r.prompt_logprobs = true; });
  refused(ML_E_ARG, [](Request& r) { r.draft_tokens = 65; });
  refused(ML_E_ARG, [](Request& r) { r.speculation = Speculation::draft; });
  refused(ML_E_ARG, [](Request& r) { r.sampling.top_p = 2; });
  refused(ML_E_MEMORY, [](Request& r) { r.prompt.assign(30000, 1); });
  const RequestHandle first = engine.submit(request(5, 5)), second = engine.submit(request(5, 5));
  refused(ML_E_BUSY, [](Request&) {});
  while (engine.step()) {
  }
  EXPECT_EQ(engine.stats().answer_tokens, 10u);
}

/// Handles that are given up take their requests with them.
TEST_F(Engine1, AnAbandonedRequestEnds) {
  Engine engine(model_, tokenizer_, context_, {.cache_bytes = 0});
  {
    const RequestHandle handle = engine.submit(request(20, 10000));
    for (int i = 0; i < 5; ++i) engine.step();
    EXPECT_GT(engine.stats().kv_used, 0u);
  }
  engine.step();
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.stats().kv_used, 0u);
}

TEST_F(Engine1, ADeadlineEndsARequestThatWaitsOrRuns) {
  Engine engine(model_, tokenizer_, context_, {.max_running = 1});
  Request slow = request(20, 10000);
  slow.deadline = Clock::now() + std::chrono::milliseconds(30);
  RequestHandle running = engine.submit(slow), waiting = engine.submit(slow);
  for (RequestHandle* handle : {&running, &waiting}) {
    Answers answers;
    while (!answers.done) {
      engine.step();
      while (const auto event = handle->next()) answers.add(*event);
    }
    EXPECT_EQ(answers.choices[0].finish, Finish::deadline);
  }
}

/// An answer is never without a token for longer than a chunk of another's prompt takes.
TEST_F(Engine1, ALongPromptDoesNotStallAnAnswer) {
  Engine engine(model_, tokenizer_, context_, {.mixed_chunk = 32});
  RequestHandle talking = engine.submit(request(5, 200));
  engine.step();
  RequestHandle reading = engine.submit(request(2000, 1));
  std::size_t prompt_steps = 0, tokens = 0;
  for (bool read = false; !read; ++prompt_steps) {
    engine.step();
    while (const auto event = talking.next()) tokens += event->ids.size();
    while (const auto event = reading.next()) read = read || event->kind == Event::Kind::tokens;
  }
  EXPECT_EQ(prompt_steps, (2000 + 31) / 32);
  EXPECT_EQ(tokens, prompt_steps + 1);
}

/// A short prompt is not kept waiting by a long one that came before.
TEST_F(Engine1, AShortPromptPassesALongOne) {
  Engine engine(model_, tokenizer_, context_, {.chunk = 64});
  const RequestHandle long_one = engine.submit(request(5000, 1));
  engine.step();
  RequestHandle short_one = engine.submit(request(40, 1));
  int steps = 0;
  for (Answers answers; !answers.done; ++steps) {
    engine.step();
    while (const auto event = short_one.next()) answers.add(*event);
  }
  EXPECT_LE(steps, 4);
}

TEST_F(Engine1, ChoicesShareThePromptAndDiffer) {
  Engine engine(model_, tokenizer_, context_, {.cache_bytes = 0});
  Request r = request(640, 20);
  r.sampling.temperature = 1;
  r.choices = 4;
  const Answers answers = run_alone(engine, r);
  const Answers again = run_alone(engine, r);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answers.choices[i].ids.size(), 20u);
    EXPECT_EQ(answers.choices[i].ids, again.choices[i].ids);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(answers.choices[i].ids, answers.choices[j].ids);
  }
  const std::size_t page = engine.pool().layout().page_bytes(KvLayout::windowed);
  EXPECT_LT(engine.stats().kv_memory, (640 / kPage + 4 * 3) * page);
  EXPECT_EQ(answers.usage.answer_tokens, 80u);
}

TEST_F(Engine1, AnErrorEndsOneRequestAlone) {
  const Model model(test_model("nan-q4.mlb"), context_.threads);
  const Tokenizer tokenizer = byte_tokenizer(model);
  Engine engine(model, tokenizer, context_);
  Request good, bad;
  good.prompt = {1, 2, 3};
  bad.prompt = {1, 5, 3};  // an embedding that is not finite
  good.max_tokens = bad.max_tokens = 8;
  good.sampling.temperature = bad.sampling.temperature = 0;
  for (Request* r : {&good, &bad}) r->sampling.logit_bias = {{5, -100.0f}};
  bad.logprobs = 2;
  bad.prompt_logprobs = true;  // rows of NaN are not sorted
  const Answers want = run_alone(engine, good);
  Schedule schedule;
  for (int i = 0; i < 6; ++i)
    schedule.add({.request = i % 2 == 0 ? good : bad, .handle = {}, .answers = Answers()});
  schedule.run(engine);
  for (const Schedule::Entry& e : schedule.entries()) {
    const Answer& answer = e.answers.choices[0];
    if (e.request.prompt == bad.prompt) {
      EXPECT_EQ(answer.finish, Finish::error);
      EXPECT_EQ(answer.status, ML_E_NUMERIC);
    } else {
      EXPECT_EQ(answer, want.choices[0]);
    }
  }
}

/// Allows one token after the other.
class Row : public TokenMask {
 public:
  explicit Row(std::vector<std::int32_t> ids) : ids_(std::move(ids)) {}
  void allow(std::span<std::uint64_t> bits) override {
    const auto id = static_cast<std::size_t>(ids_[at_]);
    bits[id / 64] |= std::uint64_t{1} << (id % 64);
  }
  void accept(std::int32_t id) override { EXPECT_EQ(id, ids_[at_++]); }

 private:
  std::vector<std::int32_t> ids_;
  std::size_t at_ = 0;
};

TEST_F(Engine1, AMaskRulesAnAnswer) {
  Engine engine(model_, tokenizer_, context_);
  Request r = request(10, 100);
  r.end_ids = {0};
  r.speculation = Speculation::lookup;
  r.make_mask = [](std::size_t) {
    return std::make_unique<Row>(std::vector<std::int32_t>{65, 66, 67, 66, 65, 66, 67, 0});
  };
  const Answers answers = run_alone(engine, r);
  EXPECT_EQ(answers.choices[0].text, "ABCBABC");
  EXPECT_EQ(answers.choices[0].finish, Finish::stop);
}

TEST_F(Engine1, StopStringsAreCutAcrossTokens) {
  Engine engine(model_, tokenizer_, context_);
  Request r = request(10, 100);
  r.stop = {"BAB", "XYZ"};
  r.make_mask = [](std::size_t) {
    return std::make_unique<Row>(std::vector<std::int32_t>{65, 66, 67, 66, 65, 66, 67, 0});
  };
  const Answers answers = run_alone(engine, r);
  EXPECT_EQ(answers.choices[0].text, "ABC");
  EXPECT_EQ(answers.choices[0].ids.size(), 6u);
  EXPECT_EQ(answers.choices[0].finish, Finish::stop);
}

TEST_F(Engine1, AThreadOfItsOwnServesMany) {
  Engine engine(model_, tokenizer_, context_);
  std::jthread owner([&](std::stop_token stop) { engine.run(stop); });
  std::vector<std::jthread> callers;
  for (std::size_t i = 0; i < 4; ++i)
    callers.emplace_back([&, i] {
      for (std::size_t round = 0; round < 3; ++round) {
        RequestHandle handle = engine.submit(request(10 + i, 20 + round));
        if (round == 1) handle.cancel();
        Answers answers;
        while (!answers.done)
          if (const auto event = handle.next(std::chrono::seconds(10))) answers.add(*event);
        if (round != 1) {
          EXPECT_EQ(answers.choices[0].ids.size(), 20 + round);
        }
      }
    });
  callers.clear();
  const RequestHandle left = engine.submit(request(10, 100000));
  owner.request_stop();
  owner.join();
  EXPECT_EQ(engine.stats().requests, 13u);
}

TEST_F(Engine1, AnImportanceMatrixCountsWholeBatches) {
  Mli importance = empty_mli(model_.header());
  ImportanceObserver observer(importance);
  Engine engine(model_, tokenizer_, context_, {.chunk = 16, .observer = &observer});
  Request r = request(50, 5);
  r.cancelled = [asked = 0]() mutable { return asked++ == 2; };
  EXPECT_EQ(run_alone(engine, r).choices[0].finish, Finish::cancelled);
  EXPECT_EQ(importance.layer_tokens, 32u);
}

}  // namespace
}  // namespace krafla
