// The engine against tools/ref_forward.py --contract, bit for bit: every model of tests/data/models, every
// prompt, all KV types, however the prompt is cut, whoever shares the batch, on every instruction set and
// number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/all_logits.h"
#include "eval/verify.h"

namespace krafla {
namespace {

using Json = nlohmann::json;

const std::string kModels = KRAFLA_TEST_DATA "/models/";

Json oracle() {
  std::ifstream in(kModels + "oracle.json");
  return Json::parse(in);
}

std::vector<std::string> model_files() {
  std::vector<std::string> files;
  const Json all = oracle();
  for (const auto& [file, entry] : all.items()) files.push_back(file);
  return files;
}

KvType kv_type(const Json& prompt) {
  return prompt["kv"] == "q8_0" ? KvType::q8_0 : prompt["kv"] == "f32" ? KvType::f32 : KvType::f16;
}

std::string text(const Json& value) { return value.get<std::string>(); }

std::string hex(std::uint64_t digest) { return fmt::format("{:016x}", digest); }

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name)
    if (find_kernels(*name) != nullptr) names.push_back(*name);
  return names;
}

std::string run(const Model& model, Context& context, const Json& prompt, std::size_t chunk) {
  Digest digest;
  all_logits(model, context, kv_type(prompt), prompt["ids"].get<std::vector<std::int32_t>>(), chunk,
             [&](std::span<const float> row) { digest.add(row); });
  return hex(digest.value());
}

class Oracle : public testing::TestWithParam<std::string> {};

TEST_P(Oracle, EveryPromptEqualsTheOracle) {
  const Json entry = oracle()[GetParam()];
  for (const std::string& isa : isas()) {
    Context context(*find_kernels(isa.c_str()), 2);
    const Model model(kModels + GetParam(), context.threads);
    const Verification verified = verify(model, context);
    EXPECT_EQ(hex(verified.digest), text(entry["verify"])) << isa;
    EXPECT_EQ(verified.first_nan.has_value(), entry.contains("nan")) << isa;
    for (const Json& prompt : entry["prompts"])
      EXPECT_EQ(run(model, context, prompt, 64), text(prompt["fnv1a64"])) << isa << " " << prompt["kv"];
  }
}

/// The longest prompt of each KV type.
std::vector<Json> longest_prompts(const Json& entry) {
  std::map<std::string, Json> longest;
  for (const Json& prompt : entry["prompts"]) {
    Json& best = longest[text(prompt["kv"])];
    if (best.is_null() || prompt["ids"].size() > best["ids"].size()) best = prompt;
  }
  std::vector<Json> prompts;
  for (const auto& [kv, prompt] : longest) prompts.push_back(prompt);
  return prompts;
}

TEST_P(Oracle, ThreadsAndChunksDoNotMatter) {
  const Json entry = oracle()[GetParam()];
  for (const int threads : {1, 3, 8}) {
    Context context(choose_kernels(nullptr), threads);
    const Model model(kModels + GetParam(), context.threads);
    for (const Json& prompt : longest_prompts(entry))
      for (const std::size_t chunk : {1u, 3u, 7u, 1000u})
        EXPECT_EQ(run(model, context, prompt, chunk), text(prompt["fnv1a64"]))
            << threads << " " << chunk << " " << prompt["kv"];
  }
}

/// All prompts of one KV type side by side, each advancing by its own stride, so that batches mix prefill
/// chunks and single steps.
void run_side_by_side(const Model& model, Context& context, const Json& entry, const std::string& kv) {
  PagePool pool(KvLayout(model.config(), kv_type({{"kv", kv}})));
  struct Stream {
    Json prompt;
    std::vector<std::int32_t> ids;
    std::size_t stride;
    Sequence sequence;
    std::size_t next = 0;
    Digest digest;
  };
  std::vector<Stream> streams;
  for (const std::size_t stride : {1u, 5u, 70u})
    for (const Json& prompt : entry["prompts"])
      if (prompt["kv"] == kv) streams.push_back({prompt, prompt["ids"], stride, Sequence(pool), 0, {}});
  Batch batch;
  for (;;) {
    std::vector<Feed> feeds;
    std::vector<Stream*> owners;  // of each row
    for (Stream& stream : streams) {
      const std::size_t count = std::min(stream.stride, stream.ids.size() - stream.next);
      if (count == 0) continue;
      feeds.push_back({&stream.sequence, std::span(stream.ids).subspan(stream.next, count), Wants::all});
      owners.insert(owners.end(), count, &stream);
      stream.next += count;
    }
    if (feeds.empty()) break;
    const std::size_t vocab = model.header().vocab;
    std::vector<float> logits(owners.size() * vocab);
    forward(model, context, batch, feeds);
    classify(model, context, batch, 0, owners.size(), logits.data());
    for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->digest.add({logits.data() + i * vocab, vocab});
  }
  for (const Stream& stream : streams)
    EXPECT_EQ(hex(stream.digest.value()), text(stream.prompt["fnv1a64"])) << kv << " " << stream.stride;
}

TEST_P(Oracle, BatchMatesDoNotMatter) {
  const Json entry = oracle()[GetParam()];
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  for (const char* kv : {"f16", "f32", "q8_0"}) run_side_by_side(model, context, entry, kv);
}

/// Feeds positions [from, to) of ids, or `other` in their place.
class Feeder {
 public:
  Feeder(const Model& model, Context& context, const Json& prompt)
      : model_(model), context_(context), ids_(prompt["ids"]) {}

  std::size_t size() const { return ids_.size(); }
  /// The same, given up before layer `layer`.
  void give_up(Sequence& sequence, std::size_t from, std::size_t to, std::size_t layer) {
    const Feed feed{&sequence, std::span(ids_).subspan(from, to - from), Wants::all};
    batch_.cancelled = [&, layers = std::size_t{0}]() mutable { return layers++ == layer; };
    EXPECT_FALSE(forward(model_, context_, batch_, {&feed, 1}));
    batch_.cancelled = nullptr;
    EXPECT_EQ(sequence.length(), from);
  }
  void feed(Sequence& sequence, std::size_t from, std::size_t to, Digest* digest, std::int32_t other = -1) {
    if (from == to) return;
    std::vector<std::int32_t> tokens(ids_.begin() + static_cast<std::ptrdiff_t>(from),
                                     ids_.begin() + static_cast<std::ptrdiff_t>(to));
    if (other >= 0) tokens.assign(to - from, other);
    const Feed feed{&sequence, tokens, Wants::all};
    const std::size_t vocab = model_.header().vocab;
    std::vector<float> logits(tokens.size() * vocab);
    EXPECT_TRUE(forward(model_, context_, batch_, {&feed, 1}));
    classify(model_, context_, batch_, 0, tokens.size(), logits.data());
    if (digest != nullptr) digest->add(logits);
  }

 private:
  const Model& model_;
  Context& context_;
  std::vector<std::int32_t> ids_;
  Batch batch_;
};

/// Pages and linear layers' state come back to the pool with what an earlier request left in them.
TEST_P(Oracle, MemoryOfAnEarlierSequenceDoesNotMatter) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  for (const Json& prompt : longest_prompts(oracle()[GetParam()])) {
    PagePool pool(KvLayout(model.config(), kv_type(prompt)));
    Feeder feeder(model, context, prompt);
    {
      Sequence first(pool);
      feeder.feed(first, 0, feeder.size(), nullptr, 2);
    }
    const std::size_t bytes = pool.bytes();
    Sequence second(pool);
    Digest digest;
    feeder.feed(second, 0, feeder.size(), &digest);
    EXPECT_EQ(hex(digest.value()), text(prompt["fnv1a64"])) << prompt["kv"];
    EXPECT_EQ(pool.bytes(), bytes) << "the second sequence did not get the first one's memory";
  }
}

std::size_t first_linear(const Model& model) {
  std::size_t layer = 0;
  while (!model.config().layers[layer].linear) ++layer;
  return layer;
}

bool has_linear_layers(const Model& model) {
  return KvLayout(model.config(), KvType::f16).page_bytes(KvLayout::linear) > 0;
}

TEST_P(Oracle, ForkedAndRewoundSequencesAreExact) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  for (const Json& prompt : longest_prompts(oracle()[GetParam()])) {
    PagePool pool(KvLayout(model.config(), kv_type(prompt)));
    Feeder feeder(model, context, prompt);
    const std::size_t half = feeder.size() / 2;
    Digest start;
    Sequence first(pool);
    feeder.feed(first, 0, half, &start);
    Sequence second = first, third = first;
    feeder.feed(first, half, half + 1, nullptr,
                0);  // writes into a shared page and a shared state: must not be seen by the copies
    for (Sequence* copy : {&second, &third}) {
      Digest digest = start;
      feeder.feed(*copy, half, feeder.size(), &digest);
      EXPECT_EQ(hex(digest.value()), text(prompt["fnv1a64"])) << prompt["kv"];
    }
    if (!has_linear_layers(model)) {
      Digest digest = start;
      first.rewind(half);
      feeder.feed(first, half, feeder.size(), &digest);
      EXPECT_EQ(hex(digest.value()), text(prompt["fnv1a64"])) << prompt["kv"];
    }
    first.rewind(first.length());
    first.rewind(0);
    Digest digest;
    feeder.feed(first, 0, half, &digest);
    feeder.feed(first, half, feeder.size(), &digest);
    EXPECT_EQ(hex(digest.value()), text(prompt["fnv1a64"])) << prompt["kv"];
  }
}

/// Calls that are given up before each of the layers, at the beginning, within and at the end of a prompt,
/// leave nothing behind; nor do they in a copy, which shares pages and state with the sequence.
TEST_P(Oracle, CallsGivenUpDoNotMatter) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  for (const Json& prompt : longest_prompts(oracle()[GetParam()])) {
    PagePool pool(KvLayout(model.config(), kv_type(prompt)));
    Feeder feeder(model, context, prompt);
    Sequence sequence(pool);
    Digest digest;
    const std::size_t size = feeder.size();
    std::size_t from = 0;
    for (const std::size_t to : {size / 2, size - 1, size}) {
      const Sequence copy = sequence;
      for (std::size_t layer = 0; layer < model.mlb().layers.size(); ++layer)
        feeder.give_up(sequence, from, size, layer);
      Digest other = digest;
      Sequence second = copy;
      feeder.feed(second, from, size, &other);
      EXPECT_EQ(hex(other.value()), text(prompt["fnv1a64"])) << prompt["kv"];
      feeder.feed(sequence, from, to, &digest);
      from = to;
    }
    EXPECT_EQ(hex(digest.value()), text(prompt["fnv1a64"])) << prompt["kv"];
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle, testing::ValuesIn(model_files()), [](const auto& file) {
  std::string name = file.param.substr(0, file.param.find('.'));
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

ml_status status_of(const std::function<void()>& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& e) {
    if (message != nullptr) *message = e.what();
    return e.status();
  }
  return ML_OK;
}

TEST(LinearLayers, HaveNoPastToRewindTo) {
  Context context(choose_kernels(nullptr), 1);
  const Model model(kModels + "linear-q8.mlb", context.threads);
  PagePool pool(KvLayout(model.config(), KvType::f16));
  Feeder feeder(model, context, {{"ids", {1, 2, 3, 4}}});
  Sequence sequence(pool);
  feeder.feed(sequence, 0, 3, nullptr);
  std::string message;
  for (const std::size_t length : {1u, 2u}) {
    EXPECT_EQ(status_of([&] { sequence.rewind(length); }, &message), ML_E_ARG);
    EXPECT_NE(message.find("copy"), std::string::npos) << message;
  }
  EXPECT_EQ(sequence.length(), 3u);
  sequence.rewind(3);
  feeder.feed(sequence, 3, 4, nullptr);
  EXPECT_EQ(sequence.length(), 4u);
}

/// Positions that were begun and rolled back leave nothing behind, in the sequence and in its copies.
TEST_P(Oracle, PositionsRolledBackDoNotMatter) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + GetParam(), context.threads);
  const Json prompt = longest_prompts(oracle()[GetParam()]).front();
  PagePool pool(KvLayout(model.config(), kv_type(prompt)));
  Feeder feeder(model, context, prompt);
  Sequence sequence(pool);
  Digest digest;
  for (std::size_t i = 0; i < feeder.size(); ++i) {
    const Sequence copy = sequence;
    std::vector<PageFill> fills;
    sequence.begin(1 + i % 130, true, fills);
    for (const PageFill& fill : fills) fill.run();
    if (KvLayout(model.config(), KvType::f16).has(KvLayout::linear))
      sequence.recurrent(first_linear(model))[0] ^= std::byte{1};
    sequence.rollback();
    feeder.feed(sequence, i, i + 1, &digest);
  }
  EXPECT_EQ(hex(digest.value()), text(prompt["fnv1a64"]));
}

TEST(Batch, RefusesWhatCannotBeRunAndChangesNothing) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + "tiny-q4.mlb", context.threads),
      other(kModels + "linear-q8.mlb", context.threads);
  const KvLayout layout(model.config(), KvType::f16);
  PagePool pool(layout), f32(KvLayout(model.config(), KvType::f32)),
      others(KvLayout(other.config(), KvType::f16));
  PagePool small(layout, layout.page_bytes(KvLayout::full) - 1);
  Sequence good(pool), second(pool), wide(f32), foreign(others), poor(small);
  Batch batch;
  const std::vector<std::int32_t> ids(3, 1), bad = {1, -1},
                                             large = {static_cast<std::int32_t>(model.config().vocab)};
  const std::vector<std::int32_t> too_many(model.config().max_seq + 1, 1);
  const struct {
    Feed feed;
    ml_status status;
  } cases[] = {{{&good, ids}, ML_E_ARG},        {{&wide, ids}, ML_E_ARG},   {{&foreign, ids}, ML_E_ARG},
               {{&poor, ids}, ML_E_MEMORY},     {{&second, bad}, ML_E_ARG}, {{&second, large}, ML_E_ARG},
               {{&second, too_many}, ML_E_ARG}, {{&second, {}}, ML_E_ARG}};
  for (const auto& [feed, status] : cases) {
    const Feed feeds[] = {{&good, ids, Wants::all}, feed};
    EXPECT_EQ(status_of([&] { forward(model, context, batch, feeds); }), status);
    EXPECT_EQ(good.length() + feed.sequence->length(), 0u);
    EXPECT_EQ(pool.in_use() + small.in_use(), 0u);
  }
  const Feed feeds[] = {{&good, ids, Wants::all}, {&second, ids, Wants::last}};
  EXPECT_TRUE(forward(model, context, batch, feeds));
  EXPECT_EQ(batch.wanted, (std::vector<std::size_t>{0, 1, 2, 5}));
}

TEST(LinearLayers, TakeNoPagesAndOneState) {
  Context context(choose_kernels(nullptr), 1);
  const Model model(kModels + "linear-only-q8.mlb", context.threads);
  const KvLayout layout(model.config(), KvType::q8_0);
  EXPECT_EQ(layout.page_bytes(KvLayout::full) + layout.page_bytes(KvLayout::windowed), 0u);
  PagePool pool(layout);
  Feeder feeder(model, context, {{"ids", std::vector<int>(100, 1)}});
  Sequence sequence(pool);
  feeder.feed(sequence, 0, 1, nullptr);
  const std::size_t bytes = pool.bytes();
  EXPECT_EQ(bytes, layout.page_bytes(KvLayout::linear));
  feeder.feed(sequence, 1, 100, nullptr);
  EXPECT_EQ(pool.bytes(), bytes);
}

TEST(Verify, NamesTheFirstPositionThatIsNotANumber) {
  Context context(choose_kernels(nullptr), 1);
  const Model bad(kModels + "nan-q4.mlb", context.threads), good(kModels + "tiny-q4.mlb", context.threads);
  const Verification result = verify(bad, context);
  ASSERT_TRUE(result.first_nan.has_value());
  EXPECT_EQ(result.nan_token, static_cast<std::int32_t>((*result.first_nan * 7919 + 1) % bad.header().vocab));
  EXPECT_EQ(result.nan_token, 5);  // the token whose embedding is infinite
  EXPECT_FALSE(verify(good, context).first_nan.has_value());
}

/// A request whose keys and values are NaN, in the batch of another one and before a third one that gets its
/// memory.
TEST(Verify, ARequestOfNansLeavesTheOthersAlone) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + "nan-q4.mlb", context.threads);
  const std::size_t vocab = model.header().vocab;
  for (const KvType type : {KvType::f16, KvType::f32, KvType::q8_0}) {
    Feeder feeder(model, context, {{"ids", {1, 2, 3, 4, 6, 7, 8, 9}}});
    PagePool fresh(KvLayout(model.config(), type)), pool(KvLayout(model.config(), type));
    Sequence alone(fresh);
    Digest want, mate, next;
    feeder.feed(alone, 0, feeder.size(), &want);
    {
      Sequence bad(pool), beside(pool);
      Batch batch;
      for (const std::int32_t id : {1, 2, 3, 4, 6, 7, 8, 9}) {
        const std::int32_t nan = 5;
        const Feed feeds[] = {{&bad, {&nan, 1}, Wants::last}, {&beside, {&id, 1}, Wants::last}};
        std::vector<float> logits(2 * vocab);
        forward(model, context, batch, feeds);
        classify(model, context, batch, 0, 2, logits.data());
        EXPECT_TRUE(std::isnan(logits[0]));
        mate.add({logits.data() + vocab, vocab});
      }
    }
    const std::size_t bytes = pool.bytes();
    Sequence after(pool);
    feeder.feed(after, 0, feeder.size(), &next);
    EXPECT_EQ(mate.value(), want.value());
    EXPECT_EQ(next.value(), want.value());
    EXPECT_EQ(pool.bytes(), bytes);
  }
}

TEST(KvTypes, WindowedPagesAreFreedInEach) {
  Context context(choose_kernels(nullptr), 1);
  const Model model(kModels + "gate-yarn-q4.mlb", context.threads);  // one full layer, one with a window of 1
  for (const KvType type : {KvType::f16, KvType::f32, KvType::q8_0}) {
    PagePool pool(KvLayout(model.config(), type));
    Feeder feeder(model, context, {{"ids", std::vector<int>(200, 1)}});
    Sequence sequence(pool);
    for (std::size_t i = 0; i < 200; i += 50) feeder.feed(sequence, i, i + 50, nullptr);
    EXPECT_EQ(sequence.page(KvLayout::windowed, 0), nullptr);
    EXPECT_NE(sequence.page(KvLayout::windowed, 3), nullptr);
    EXPECT_NE(sequence.page(KvLayout::full, 0), nullptr);
    std::string message;
    EXPECT_EQ(status_of([&] { sequence.rewind(20); }, &message), ML_E_ARG);
    EXPECT_LT(pool.bytes(),
              4 * (pool.layout().page_bytes(KvLayout::full) + pool.layout().page_bytes(KvLayout::windowed)));
  }
}

}  // namespace
}  // namespace krafla
