#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/float16.h"
#include "base/mapped_file.h"
#include "test_files.h"

namespace krafla {
namespace {

TEST(Gguf, BadFilesGiveTheirStatusAndSayWhy) {
  int seen = 0;
  for (const auto& entry : manifest("gguf")) {
    const std::string file = entry["file"];
    SCOPED_TRACE(file);
    const auto bytes = file_bytes(data_path("gguf/" + file));
    const Exact exact(bytes);
    const auto [status, message] = outcome([&] { parse_gguf(exact.span(), file); });
    if (entry.value("stage", "") != "parse") {
      EXPECT_EQ(status, "ML_OK") << message;
      continue;
    }
    ++seen;
    EXPECT_EQ(status, entry["status"].get<std::string>()) << message;
    for (const std::string mention : entry["mentions"])
      EXPECT_NE(message.find(mention), std::string::npos) << message << "\n" << mention;
  }
  EXPECT_GT(seen, 30);
}

TEST(Gguf, TypedValues) {
  const auto bytes = file_bytes(data_path("gguf/llama_f32.gguf"));
  const Gguf g = parse_gguf(bytes, "g");
  EXPECT_EQ(g.version, 3u);
  EXPECT_EQ(g.text("general.architecture"), "llama");
  EXPECT_EQ(g.integer("llama.embedding_length"), 32);
  EXPECT_EQ(g.number("llama.rope.freq_base"), 10000.0);
  EXPECT_EQ(g.boolean("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(g.texts("tokenizer.ggml.tokens")->size(), 40u);
  EXPECT_EQ(g.integers("tokenizer.ggml.token_type")->at(0), 3);
  EXPECT_EQ(g.integer("no.such.key"), std::nullopt);
  EXPECT_EQ(outcome([&] { g.text("llama.embedding_length"); }).first, "ML_E_FORMAT");
  EXPECT_EQ(outcome([&] { g.integer("general.architecture"); }).first, "ML_E_FORMAT");
  EXPECT_EQ(outcome([&] { g.texts("tokenizer.ggml.token_type"); }).first, "ML_E_FORMAT");
  const GgufTensor* t = g.tensor("blk.0.ffn_up.weight");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->rows(), 64u);
  EXPECT_EQ(t->cols(), 32u);
  EXPECT_EQ(g.tensor("blk.0.ffn_up"), nullptr);
}

TEST(Gguf, EveryTruncationIsRefused) {
  const auto whole = file_bytes(data_path("gguf/llama_q4_0.gguf"));
  for (std::size_t n = 0; n < whole.size(); n += n < 3000 ? 1 : 37) {
    const Exact cut(Bytes(whole).first(n));
    const auto [status, message] = outcome([&] { parse_gguf(cut.span(), "cut.gguf"); });
    EXPECT_TRUE(status == "ML_E_FORMAT" || n + 32 > whole.size())
        << n << " " << message;  // padding may be missing
  }
}

TEST(Gguf, BitFlipsNeverCrash) {
  const auto whole = file_bytes(data_path("gguf/llama_q4_0.gguf"));
  const Exact copy(whole);
  auto* bytes = const_cast<std::uint8_t*>(copy.span().data());
  for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(whole.size(), 3000); ++bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    const auto [status, message] = outcome([&] { parse_gguf(copy.span(), "flip.gguf"); });
    EXPECT_TRUE(status == "ML_OK" || status == "ML_E_FORMAT" || status == "ML_E_UNSUPPORTED") << status;
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
  }
}

TEST(Gguf, NamesInMessagesAreHarmless) {
  EXPECT_EQ(printable("a\x1b[2J\n\xff"), "a\\x1b[2J\\x0a\\xff");
  EXPECT_EQ(printable(std::string(1000, 'x')).size(), 83u);
}

}  // namespace
}  // namespace krafla
