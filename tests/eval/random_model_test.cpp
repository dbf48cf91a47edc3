// Models of random weights: published sizes, the same bytes with any threads, nothing the format forbids.
#include "eval/random_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "eval/all_logits.h"
#include "eval/model_shapes.h"
#include "eval/verify.h"

namespace krafla {
namespace {

ModelSize size_of(const ModelShape& shape, WeightType type) {
  return model_size(shape.header(type), shape.flags(), shape.name);
}

Model make(const char* name, WeightType type, ThreadPool& threads) {
  const ModelShape& shape = find_shape(name);
  return random_model(shape.header(type), shape.flags(), name, threads);
}

// The parameter counts of the models' pages, each weight once: an independent sum of every figure but max_seq
// and RoPE's.
TEST(RandomModel, ShapesHaveThePublishedNumberOfParameters) {
  const std::map<std::string, std::uint64_t> published = {
      {"gemma3-1b", 999885952},    {"llama3.1-8b", 8030261248}, {"llama3.2-1b", 1235814400},
      {"llama3.2-3b", 3212749824}, {"qwen2.5-0.5b", 494032768}, {"qwen2.5-1.5b", 1543714304},
      {"qwen2.5-7b", 7615616512},  {"qwen3-0.6b", 596049920},   {"smollm2-135m", 134515008},
      {"smollm2-360m", 361821120}, {"smollm2-1.7b", 1711376384}};
  for (const ModelShape& shape : model_shapes()) {
    const auto found = published.find(shape.name);
    if (found != published.end()) {
      EXPECT_EQ(size_of(shape, WeightType::q8_0).parameters, found->second) << shape.name;
    } else {
      EXPECT_STREQ(shape.name, "qwen3.5-0.8b");  // published with its vision part
    }
  }
}

TEST(RandomModel, FourBitsTakeAboutHalfOfEight) {
  for (const ModelShape& shape : model_shapes()) {
    const auto q8 = static_cast<double>(size_of(shape, WeightType::q8_0).bytes),
               q4 = static_cast<double>(size_of(shape, WeightType::q4_0).bytes);
    EXPECT_NEAR(q4 / q8, 4.5 / 8.5, 0.02) << shape.name;
  }
}

TEST(RandomModel, UnknownShapesAreNamedWithThoseThereAre) {
  try {
    find_shape("gpt2");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), ML_E_ARG);
    for (const char* word : {"gpt2", "qwen2.5-0.5b", "smollm2-135m"})
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos);
  }
}

TEST(RandomModel, TheSameBytesWithAnyThreads) {
  ThreadPool one(1), three(3);
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_0}) {
    const Model a = make("smollm2-135m", type, one), b = make("smollm2-135m", type, three);
    EXPECT_EQ(a.bytes().size(), size_of(find_shape("smollm2-135m"), type).bytes);
    EXPECT_TRUE(std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end()));
    EXPECT_NO_THROW(parse_mlb(a.bytes(), "random"));  // with the scan for -128
    const std::uint8_t* q = a.mlb().layers[7].w2.q;
    EXPECT_GT(std::set<std::uint8_t>(q, q + 4096).size(), 100u);
    EXPECT_FALSE(std::equal(q, q + 4096, a.mlb().layers[8].w2.q));
  }
}

TEST(RandomModel, ItsLogitsAreNumbersAndDiffer) {
  Context context(choose_kernels(nullptr), 2);
  const Model model = make("smollm2-135m", WeightType::q4_0, context.threads);
  const std::int32_t ids[] = {1, 2, 3};
  all_logits(model, context, KvType::f16, ids, 3, [](std::span<const float> row) {
    EXPECT_FALSE(has_nan(row));
    EXPECT_NE(row[0], row[1]);
  });
}

}  // namespace
}  // namespace krafla
