// The work that a forward call is held against, the limits, and the measuring itself on every kind of layer.
#include "eval/speed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "formats/mlb.h"

namespace krafla {
namespace {

const std::string kModels = KRAFLA_TEST_DATA "/models/";

/// Two layers of 64 × 64 and 32 × 64 matrices, FFN 96, vocab 100; q8_0 with f16 scales: 34 bytes a block
/// of 32.
struct Tiny {
  Mlb mlb;

  explicit Tiny(std::uint32_t window) {
    mlb.header = {.dim = 64,
                  .n_layers = 2,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .hidden_dim = 96,
                  .vocab = 100,
                  .max_seq = 100,
                  .sliding_window = window};
    const auto matrix = [](std::size_t rows, std::size_t cols) {
      static const std::uint8_t byte = 0;
      return Matrix{WeightType::q8_0, rows, cols, &byte, &byte, true};
    };
    for (int i = 0; i < 2; ++i) {
      MlbLayer layer;
      layer.flags = window != 0 && i == 1 ? kLayerWindow : 0;
      layer.wq = layer.wo = matrix(64, 64);
      layer.wk = layer.wv = matrix(32, 64);
      layer.w1 = layer.w3 = matrix(96, 64);
      layer.w2 = matrix(64, 96);
      mlb.layers.push_back(layer);
    }
    mlb.tok_emb = mlb.wcls = matrix(100, 64);
  }
};

constexpr double kLayerWeights = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64, kHead = 100 * 64;

TEST(CallWork, ReadsEachMatrixOnceAndEachSequencesPast) {
  const Tiny tiny(0);
  const KvLayout layout(ModelConfig(tiny.mlb), KvType::f16);
  const Work work = call_work(tiny.mlb, layout, 10, 1, 3, 3);
  EXPECT_EQ(work.multiply_adds, 3 * (2 * kLayerWeights + kHead));
  const double kv = 2 * 2 * 16 * 2;  // keys and values of 2 heads of 16 in f16, one layer
  EXPECT_EQ(work.bytes, (2 * kLayerWeights + kHead) * 34 / 32 + 3 * 2 * 11 * kv);
}

TEST(CallWork, APromptReadsTheClassifierOnlyForItsLogits) {
  const Tiny tiny(0);
  const KvLayout layout(ModelConfig(tiny.mlb), KvType::f32);
  const Work without = call_work(tiny.mlb, layout, 0, 7, 1, 0),
             with = call_work(tiny.mlb, layout, 0, 7, 1, 1);
  EXPECT_EQ(without.multiply_adds, 7 * 2 * kLayerWeights);
  EXPECT_EQ(with.multiply_adds - without.multiply_adds, kHead);
  EXPECT_EQ(with.bytes - without.bytes, kHead * 34 / 32);
}

TEST(CallWork, AWindowBoundsWhatIsRead) {
  const Tiny tiny(5);
  const KvLayout layout(ModelConfig(tiny.mlb), KvType::f16);
  const double kv = 2 * 2 * 16 * 2;
  EXPECT_EQ(call_work(tiny.mlb, layout, 20, 1, 1, 0).bytes, 2 * kLayerWeights * 34 / 32 + (21 + 5) * kv);
  EXPECT_EQ(call_work(tiny.mlb, layout, 2, 1, 1, 0).bytes, 2 * kLayerWeights * 34 / 32 + (3 + 3) * kv);
}

TEST(Limits, TheSlowerOfBothHolds) {
  const Limits limits{100, 10};
  EXPECT_EQ(limits.seconds({200, 10}), 2);
  EXPECT_EQ(limits.seconds({200, 50}), 5);
}

TEST(Speed, EveryKindOfLayerCanBeMeasured) {
  Context context(choose_kernels(nullptr), 2);
  for (const char* name : {"tiny-q4.mlb", "gemma3-like-q8.mlb", "qwen3_5-q8.mlb", "linear-window-q4.mlb"}) {
    const Model model(kModels + name, context.threads);
    for (const KvType kv : {KvType::f16, KvType::f32, KvType::q8_0}) {
      SpeedTest test(model, context, kv);
      const std::size_t deep = std::min<std::size_t>(model.header().max_seq - 4, 140);
      for (const std::size_t depth : {std::size_t{0}, std::size_t{3}, deep}) {
        const Speed one = test.prefill(4, depth, 3, 2), many = test.decode(2, depth, 5, 2);
        EXPECT_EQ(one.tokens, 4);
        EXPECT_EQ(many.tokens, 10);
        EXPECT_GT(one.seconds, 0);
        EXPECT_GT(many.seconds, 0);
        EXPECT_GT(many.work.bytes, 0);
      }
    }
  }
}

TEST(Speed, LimitsAreMeasured) {
  Context context(choose_kernels(nullptr), 2);
  const Model model(kModels + "tiny-q4.mlb", context.threads);
  const Limits limits = measure_limits(model, context);
  EXPECT_GT(limits.bytes_s, 1e6);
  EXPECT_GT(limits.multiply_adds_s, 1e6);
}

// The kernel says what it did: whole tiles, in proportion to the rounds.
TEST(Speed, ThePeakCountsItsMultiplyAdds) {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const Kernels* kernels = find_kernels(*name);
    if (kernels == nullptr) continue;
    for (const WeightType type : {WeightType::q8_0, WeightType::q4_0}) {
      const std::size_t one = kernels->multiply_add_peak(type, 1);
      EXPECT_GT(one, 0u) << *name;
      EXPECT_EQ(one % (16 * 32), 0u) << *name;
      EXPECT_EQ(kernels->multiply_add_peak(type, 9), 9 * one) << *name;
    }
  }
}

}  // namespace
}  // namespace krafla
