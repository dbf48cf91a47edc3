#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "sample/log_softmax.h"
#include "sample/philox.h"

namespace krafla {
namespace {

using Floats = std::vector<float>;

/// sample() for a vocabulary, with a history given whole.
class Sampler {
 public:
  Sampler(SamplingOptions options, std::size_t vocab) : options_(std::move(options)), vocab_(vocab) {
    check_sampling_options(options_, vocab);
  }
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history,
                      const DrawCounter& counter, TokenMask* mask = nullptr) {
    TokenCounts counts(vocab_, options_.penalty_window);
    counts.add(history);
    return krafla::sample(options_, scratch_, logits.first(std::min(vocab_, logits.size())), counts, counter,
                          mask);
  }

 private:
  SamplingOptions options_;
  std::size_t vocab_;
  SampleScratch scratch_;
};

TEST(Philox, PublishedKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

SamplingOptions options_of(const nlohmann::json& json) {
  SamplingOptions o;
  o.temperature = json.value("temperature", o.temperature);
  o.top_k = json.value("top_k", o.top_k);
  o.top_p = json.value("top_p", o.top_p);
  o.min_p = json.value("min_p", o.min_p);
  o.repetition_penalty = json.value("repetition_penalty", o.repetition_penalty);
  o.presence_penalty = json.value("presence_penalty", o.presence_penalty);
  o.frequency_penalty = json.value("frequency_penalty", o.frequency_penalty);
  o.penalty_window = json.value("penalty_window", o.penalty_window);
  if (json.contains("logit_bias"))
    o.logit_bias = json["logit_bias"].get<std::vector<std::pair<std::int32_t, float>>>();
  o.seed = json.value("seed", o.seed);
  return o;
}

TEST(Sampler, ChoosesWhatTheOracleDoes) {
  std::ifstream in(std::string(KRAFLA_TEST_DATA) + "/sampler.json");
  const auto cases = nlohmann::json::parse(in);
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    SCOPED_TRACE(c.dump().substr(0, 400));
    Floats logits;
    if (c.contains("bits"))
      for (const std::uint32_t bits : c["bits"]) logits.push_back(std::bit_cast<float>(bits));
    else
      for (std::uint32_t i = 0; i < c["size"].get<std::uint32_t>(); ++i)
        logits.push_back(
            static_cast<float>(philox4x32({i, c["n"].get<std::uint32_t>(), 0, 0}, {0, 0})[0] >> 16) / 4096);
    Sampler sampler(options_of(c["options"]), logits.size());
    const auto history = c["history"].get<std::vector<std::int32_t>>();
    const DrawCounter counter{c["counter"][0], c["counter"][1], c["counter"][2]};
    EXPECT_EQ(sampler.sample(logits, history, counter), c["id"].get<std::int32_t>());
    logits.resize(logits.size() + 3, 1e6f);  // rows beyond the tokenizer's vocabulary
    EXPECT_EQ(sampler.sample(logits, history, counter), c["id"].get<std::int32_t>());
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
  SamplingOptions greedy;
  greedy.temperature = 0;
  Sampler sampler(greedy, 5);
  EXPECT_EQ(sampler.sample(Floats{1, 3, 2, 3, 0}, {}, {}), 1);
  EXPECT_EQ(sampler.sample(Floats{-0.0f, 0.0f, -1, -1, -1}, {}, {}), 0);
}

TEST(Sampler, FrequenciesFollowTheWeights) {
  const Floats logits = {std::log(1.0f), std::log(2.0f), std::log(3.0f), std::log(4.0f)};
  const auto frequencies = [&](const SamplingOptions& options) {
    Sampler sampler(options, 4);
    std::vector<double> counts(4);
    constexpr std::uint32_t kDraws = 100000;
    for (std::uint32_t i = 0; i < kDraws; ++i)
      counts[static_cast<std::size_t>(sampler.sample(logits, {}, {.position = i}))] += 1.0 / kDraws;
    return counts;
  };
  const auto near = [](const std::vector<double>& got, const std::vector<double>& want) {
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 0.006) << i;  // 4 standard deviations
  };
  SamplingOptions options;
  options.seed = 42;
  near(frequencies(options), {0.1, 0.2, 0.3, 0.4});
  options.top_k = 2;
  near(frequencies(options), {0, 0, 3.0 / 7, 4.0 / 7});
  options.top_k = 0;
  options.top_p = 0.65f;
  near(frequencies(options), {0, 0, 3.0 / 7, 4.0 / 7});
  options.top_p = 1;
  options.min_p = 0.4f;
  near(frequencies(options), {0, 2.0 / 9, 3.0 / 9, 4.0 / 9});
  options.min_p = 0;
  options.temperature = 0.5f;
  near(frequencies(options), {1.0 / 30, 4.0 / 30, 9.0 / 30, 16.0 / 30});
}

TEST(Sampler, NarrowAndWideAgreeOnManyCandidates) {
  // 150,000 candidates: keeping all of them by top_k sorts everything; the same draw by lazy selection must
  // give the same token.
  Floats logits(150000);
  for (std::uint32_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(philox4x32({i, 7, 0, 0}, {0, 0})[0] >> 20) / 1024;
  SamplingOptions lazy, full;
  lazy.top_p = full.top_p = 0.95f;
  full.top_k = 150000;
  Sampler a(lazy, logits.size()), b(full, logits.size());
  for (std::uint32_t i = 0; i < 5; ++i)
    EXPECT_EQ(a.sample(logits, {}, {.position = i}), b.sample(logits, {}, {.position = i}));
}

TEST(Sampler, DrawsRepeatForASeedAndDifferByCounter) {
  const Floats logits(1000, 0.0f);
  SamplingOptions options;
  options.seed = 0x123456789abcdef0;
  Sampler a(options, 1000), b(options, 1000);
  int same = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::int32_t id = a.sample(logits, {}, {.position = i});
    EXPECT_EQ(id, b.sample(logits, {}, {.position = i}));
    same += id == a.sample(logits, {}, {.position = i, .choice = 1});
    same += id == a.sample(logits, {}, {.position = i, .draw = 1});
  }
  EXPECT_LT(same, 5);
  options.seed ^= std::uint64_t{1} << 40;  // the high half counts too
  Sampler c(options, 1000);
  EXPECT_NE(a.sample(logits, {}, {}), c.sample(logits, {}, {}));
}

TEST(Sampler, LogitsThatAreNoNumbersEndTheRequest) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto status = [](float temperature, const Floats& logits) {
    SamplingOptions options;
    options.temperature = temperature;
    try {
      Sampler(options, 3).sample(logits, {}, {});
    } catch (const Error& e) {
      return e.status();
    }
    return ML_OK;
  };
  for (const float temperature : {0.0f, 1.0f}) {
    EXPECT_EQ(status(temperature, {0, nan, 0}), ML_E_NUMERIC);
    EXPECT_EQ(status(temperature, {nan, 0, 0}), ML_E_NUMERIC);
    EXPECT_EQ(status(temperature, {0, inf, 0}), ML_E_NUMERIC);
    EXPECT_EQ(status(temperature, {-inf, -inf, -inf}), ML_E_NUMERIC);
    EXPECT_EQ(status(temperature, {-inf, 1, -inf}), ML_OK);
    EXPECT_EQ(status(temperature, {3e38f, -3e38f, 0}), ML_OK);
    EXPECT_EQ(status(temperature, {0, 0, 0, nan}), ML_OK);  // beyond the vocabulary
    EXPECT_EQ(status(temperature, {}), ML_E_ARG);
  }
}

TEST(Sampler, OptionsOutsideTheirRangeAreRefusedByName) {
  const auto refused = [](const char* name, auto&& set) {
    SamplingOptions options;
    set(options);
    try {
      check_sampling_options(options, 10);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), ML_E_ARG);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_sampling_options({}, 10);
  for (const float bad : {-0.1f, 101.0f, nan}) refused("temperature", [&](auto& o) { o.temperature = bad; });
  for (const float bad : {0.0f, -1.0f, 1.1f, nan}) refused("top_p", [&](auto& o) { o.top_p = bad; });
  for (const float bad : {-0.1f, 1.1f, nan}) refused("min_p", [&](auto& o) { o.min_p = bad; });
  for (const float bad : {0.0f, -1.0f, nan})
    refused("repetition_penalty", [&](auto& o) { o.repetition_penalty = bad; });
  for (const float bad : {-2.1f, 2.1f, nan})
    refused("presence_penalty", [&](auto& o) { o.presence_penalty = bad; });
  for (const float bad : {-2.1f, 2.1f, nan})
    refused("frequency_penalty", [&](auto& o) { o.frequency_penalty = bad; });
  refused("top_k", [](auto& o) { o.top_k = -1; });
  refused("penalty_window", [](auto& o) { o.penalty_window = -2; });
  refused("logit_bias", [](auto& o) { o.logit_bias = {{10, 1.0f}}; });
  refused("logit_bias", [](auto& o) { o.logit_bias = {{-1, 1.0f}}; });
  refused("logit_bias", [](auto& o) { o.logit_bias = {{1, 101.0f}}; });
}

/// Allows some ids.
class Only : public TokenMask {
 public:
  explicit Only(std::vector<std::size_t> ids) : ids_(std::move(ids)) {}
  void allow(std::span<std::uint64_t> bits) override {
    for (const std::size_t id : ids_) bits[id / 64] |= std::uint64_t{1} << (id % 64);
  }
  void accept(std::int32_t) override {}

 private:
  std::vector<std::size_t> ids_;
};

TEST(Sampler, AMaskRulesTokensOut) {
  Floats logits(130);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 97);
  SamplingOptions greedy, hot;
  greedy.temperature = 0;
  hot.temperature = 100;
  Only few({3, 64, 129}), none({});
  EXPECT_EQ(Sampler(greedy, 130).sample(logits, {}, {}, &few), 64);
  for (std::uint32_t i = 0; i < 50; ++i) {
    const std::int32_t id = Sampler(hot, 130).sample(logits, {}, {.position = i}, &few);
    EXPECT_TRUE(id == 3 || id == 64 || id == 129) << id;
  }
  EXPECT_THROW(Sampler(greedy, 130).sample(logits, {}, {}, &none), Error);
}

TEST(TokenCounts, EqualACountOfTheWindow) {
  std::vector<std::int32_t> ids;
  for (std::uint32_t i = 0; i < 300; ++i)
    ids.push_back(static_cast<std::int32_t>(philox4x32({i, 0, 0, 0}, {1, 0})[0] % 14) - 2);
  for (const std::int32_t window : {-1, 0, 1, 7, 299, 1000}) {
    TokenCounts counts(10, window);
    for (std::size_t n = 1; n <= ids.size(); ++n) {
      counts.add(ids[n - 1]);
      const std::size_t seen = window < 0 ? n : std::min(n, static_cast<std::size_t>(window));
      std::map<std::int32_t, std::uint32_t> want, got;
      for (std::size_t i = n - seen; i < n; ++i)
        if (ids[i] >= 0 && ids[i] < 10) ++want[ids[i]];
      for (const std::int32_t id : counts.distinct()) got[id] += counts.count(id);
      ASSERT_EQ(got, want) << window << " " << n;
    }
  }
}

TEST(TokenLogprobs, AreThoseOfTheWholeRow) {
  const Floats logits = {std::log(1.0f), std::log(4.0f), std::log(2.0f), std::log(2.0f), std::log(1.0f)};
  const TokenLogprobs found = token_logprobs(logits, 0, 3);
  EXPECT_NEAR(found.token.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(found.top.size(), 3u);
  EXPECT_EQ(found.top[0].id, 1);
  EXPECT_EQ(found.top[1].id, 2);  // the lower id of equals
  EXPECT_EQ(found.top[2].id, 3);
  EXPECT_NEAR(found.top[1].logprob, std::log(0.2), 1e-6);
  EXPECT_EQ(token_logprobs(logits, 0, 100).top.size(), 5u);
}

}  // namespace
}  // namespace krafla
