// Rows on their way from a checkpoint, and Hugging Face folders as seen by the library;
// tests/python/test_convert.py has the bytes.
#include <gtest/gtest.h>

#include <numeric>

#include "../formats/test_files.h"
#include "convert/arch/registry.h"
#include "convert/convert.h"
#include "convert/rows.h"

namespace krafla {
namespace {

/// Element [r][c] is 100 · r + c.
SourceTensor numbered(std::size_t rows, std::size_t cols) {
  return {.name = "t", .rows = rows, .cols = cols, .read_row = [](std::size_t row, std::span<float> out) {
            for (std::size_t c = 0; c < out.size(); ++c) out[c] = static_cast<float>(100 * row + c);
          }};
}

std::vector<float> first_column(const SourceTensor& t) {
  std::vector<float> column, row(t.cols);
  for (std::size_t r = 0; r < t.rows; ++r) {
    t.read(r, row);
    column.push_back(row[0]);
  }
  return column;
}

std::vector<float> only_row(const SourceTensor& t) {
  std::vector<float> row(t.cols);
  t.read(0, row);
  return row;
}

TEST(Rows, Interleave) {
  EXPECT_EQ(first_column(interleave_heads(numbered(8, 3), 4, 4)),
            (std::vector<float>{0, 200, 100, 300, 400, 600, 500, 700}));
  EXPECT_EQ(first_column(interleave_heads(numbered(6, 1), 6, 4)),
            (std::vector<float>{0, 200, 100, 300, 400, 500}));
  EXPECT_EQ(only_row(interleave_heads(numbered(1, 8), 4, 4)), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(Rows, PicksNameTheSourcesRow) {
  const SourceTensor gate = pick_rows(numbered(8, 2), {2, 3, 6, 7});
  EXPECT_EQ(gate.source_row(2), 6u);
  const SourceTensor both = interleave_heads(gate, 4, 4);
  EXPECT_EQ(first_column(both), (std::vector<float>{200, 600, 300, 700}));
  EXPECT_EQ(both.source_row(1), 6u);
  EXPECT_EQ(only_row(pick_cols(pick_cols(numbered(1, 4), {3, 2, 1, 0}), {0, 0, 3})),
            (std::vector<float>{3, 3, 0}));
  const MlbHeader plain{.dim = 3, .n_heads = 1};
  const auto with_norms = [&](std::string_view target) {
    return only_row(from_halves_norms_plus_one(numbered(1, 3), plain, *find_mlb_tensor(target)));
  };
  EXPECT_EQ(with_norms("ffn_norm"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(with_norms("lnorm"), (std::vector<float>{0, 1, 2}));
}

TEST(HuggingFace, EveryModelTypeHasAFamily) {
  for (const char* name : {"gemma2", "gemma3", "gemma3_nested", "llama3", "mistral_swa", "qwen2", "qwen3",
                           "qwen3_5", "qwen3_5_nested_v4", "smollm3"}) {
    const HfCheckpoint checkpoint(data_path(std::string("checkpoints/") + name));
    const ModelPlan plan = hf_family(checkpoint).plan_hf(checkpoint, {});
    EXPECT_FALSE(plan.tensors.empty()) << name;
    EXPECT_EQ(plan.q4_rule, std::string_view(name).starts_with("gemma3") ? Q4Rule::round : Q4Rule::search);
  }
}

TEST(HuggingFace, SourcesGiveTheirPagesBack) {
  const HfCheckpoint checkpoint(data_path("checkpoints/llama3"));
  const SafeTensor* t = checkpoint.tensor("model.embed_tokens.weight");
  ASSERT_NE(t, nullptr);
  const SourceTensor s = checkpoint.source(*t);
  const std::vector<float> before = first_column(s);
  s.release();
  EXPECT_EQ(first_column(s), before);
}

TEST(HuggingFace, ConvertsWithAnyKernelsAndThreads) {
  const TemporaryFolder folder;
  std::vector<std::uint8_t> want;
  for (const char* const* isa = kernel_names(); *isa != nullptr; ++isa)
    for (const int threads : {1, 4}) {
      ConvertOptions options;
      options.kernels = find_kernels(*isa);
      if (options.kernels == nullptr) continue;
      options.threads = threads;
      options.storage.type = WeightType::q4_0;
      const ConvertSummary s = convert_model(data_path("checkpoints/qwen3_5"), folder.file("x"), options);
      EXPECT_FALSE(std::filesystem::exists(s.paths.mlt));  // the folder has no tokenizer
      EXPECT_FALSE(s.notes.empty());
      const auto bytes = file_bytes(s.paths.mlb);
      if (want.empty()) want = bytes;
      EXPECT_EQ(bytes, want);
    }
  EXPECT_FALSE(want.empty());
}

TEST(HuggingFace, NameOfAFolder) {
  EXPECT_EQ(output_paths(data_path("checkpoints/llama3"), "").mlb, "llama3.mlb");
  EXPECT_EQ(output_paths(data_path("checkpoints/llama3/"), "").mlb, "llama3.mlb");
  EXPECT_EQ(output_paths(data_path("checkpoints/llama3/../llama2/."), "").mlb, "llama2.mlb");
}

}  // namespace
}  // namespace krafla
