#include "convert/convert.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../formats/test_files.h"
#include "convert/arch/registry.h"
#include "convert/convert_tokenizer.h"
#include "convert/gguf_source.h"
#include "formats/mlb.h"

namespace krafla {
namespace {

std::string fnv1a64(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const std::uint8_t b : bytes) value = (value ^ b) * 0x100000001b3u;
  return fmt::format("{:016x}", value);
}

TEST(Convert, GivesTheOraclesBytesWithAnyThreads) {
  const TemporaryFolder folder;
  for (const auto& entry : manifest("gguf")) {
    if (entry["status"] != "ML_OK") continue;
    for (const auto& want : entry["mlb"]) {
      SCOPED_TRACE(entry["file"].get<std::string>() + " " + want.dump());
      ConvertOptions options;
      options.tokenizer = false;
      options.storage.type = want["type"] == "q4_0" ? WeightType::q4_0 : WeightType::q8_0;
      options.storage.scale_f16 = want["scales"] == "f16";
      options.q4_rule = want["rule"] == "round" ? Q4Rule::round : Q4Rule::search;
      for (const char* const* isa = kernel_names(); *isa != nullptr; ++isa) {
        options.kernels = find_kernels(*isa);
        if (options.kernels == nullptr) continue;
        options.threads = options.threads == 1 ? 3 : 1;
        const ConvertSummary s =
            convert_model(data_path("gguf/" + entry["file"].get<std::string>()), folder.file("x"), options);
        const auto bytes = file_bytes(s.paths.mlb);
        EXPECT_EQ(bytes.size(), want["size"].get<std::size_t>());
        EXPECT_EQ(fnv1a64(bytes), want["fnv1a64"].get<std::string>());
      }
    }
  }
}

TEST(Convert, BadSourcesLeaveNothingBehind) {
  int seen = 0;
  for (const auto& entry : manifest("gguf")) {
    if (entry["status"] == "ML_OK") continue;
    const std::string file = entry["file"];
    SCOPED_TRACE(file);
    const TemporaryFolder folder;
    ConvertOptions options;
    options.tokenizer = false;
    options.threads = 2;
    const auto [status, message] =
        outcome([&] { convert_model(data_path("gguf/" + file), folder.file("x"), options); });
    if (file == "bad_empty.gguf" || file == "bad_magic.gguf")
      continue;  // refused before parsing, in other words
    EXPECT_EQ(status, entry["status"].get<std::string>()) << message;
    for (const std::string mention : entry["mentions"])
      EXPECT_NE(message.find(mention), std::string::npos) << message << "\n" << mention;
    EXPECT_TRUE(folder.is_empty());
    ++seen;
  }
  EXPECT_GT(seen, 50);
}

TEST(Convert, WritesAllThreeFilesOrNone) {
  const TemporaryFolder folder;
  ConvertOptions options;
  const std::string source = data_path("gguf/llama_q8_0.gguf");
  const ConvertSummary s = convert_model(source, folder.file("y.mlb"), options);
  for (const std::string& path : {s.paths.mlb, s.paths.mlt, s.paths.json})
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_EQ(s.paths.json, folder.file("y.json"));
  EXPECT_GT(s.weights, 0u);
  ASSERT_FALSE(s.errors.empty());
  for (const ClassError& e : s.errors) EXPECT_LT(e.relative_rms, 0.01) << e.name;

  const TemporaryFolder other;
  std::filesystem::create_directory(
      other.file("z.json"));  // a folder where the JSON should go: the last step fails
  EXPECT_EQ(outcome([&] { convert_model(source, other.file("z"), options); }).first, "ML_E_IO");
  EXPECT_FALSE(std::filesystem::exists(other.file("z.mlb")));
  EXPECT_FALSE(std::filesystem::exists(other.file("z.mlt")));
}

TEST(Convert, Cancels) {
  const TemporaryFolder folder;
  ConvertOptions options;
  options.cancelled = [] { return true; };
  EXPECT_EQ(
      outcome([&] { convert_model(data_path("gguf/llama_f32.gguf"), folder.file("x"), options); }).first,
      "ML_E_CANCELLED");
  EXPECT_TRUE(folder.is_empty());
}

TEST(Convert, OtherSourcesGetOneClearLine) {
  const TemporaryFolder folder;
  EXPECT_EQ(outcome([&] { convert_model(folder.file("missing.gguf"), "", {}); }).first, "ML_E_IO");
  EXPECT_EQ(outcome([&] { convert_model(folder.file(""), "", {}); }).first,
            "ML_E_IO");  // no config.json in it
  const auto [status, message] =
      outcome([&] { convert_model(data_path("good/q8_f32.mlb"), folder.file("x"), {}); });
  EXPECT_EQ(status, "ML_E_FORMAT");
  EXPECT_NE(message.find(".mlb model already"), std::string::npos) << message;
}

TEST(Convert, OutputPaths) {
  const TemporaryFolder folder;
  EXPECT_EQ(output_paths("a/b/model.gguf", "").mlb, "model.mlb");
  EXPECT_EQ(output_paths("a/b/model.Q4_1.gguf", "").mlt, "model.Q4_1.mlt");
  EXPECT_EQ(output_paths("a/b/model-00002-of-00003.gguf", "").json, "model.json");
  EXPECT_EQ(output_paths("a/b/model-0002-of-0003.gguf", "").mlb, "model-0002-of-0003.mlb");
  EXPECT_EQ(output_paths("model.gguf", "x/y.mlb").json, "x/y.json");
  EXPECT_EQ(output_paths("model.gguf", "x/y.v1").mlb, "x/y.v1.mlb");
  for (const char* out : {"x/y", "x/y.mlb", "x/y.mlt", "x/y.json"}) {  // any of a model's files names it
    EXPECT_EQ(output_paths("model.gguf", out).mlb, "x/y.mlb");
    EXPECT_EQ(tokenizer_paths("model.gguf", out).mlt, "x/y.mlt");
    EXPECT_EQ(tokenizer_paths("model.gguf", out).json, "x/y.json");
  }
  EXPECT_EQ(tokenizer_paths("model.gguf", "x/y.gguf").mlt, "x/y.gguf.mlt");
  EXPECT_EQ(tokenizer_paths("a/model/tokenizer.json", "").mlt, "model.mlt");
  EXPECT_EQ(output_paths("model.gguf", "no/such/folder/").mlb, "no/such/folder/model.mlb");
  EXPECT_EQ(output_paths("model.gguf", folder.file("")).mlb, folder.file("model.mlb"));
}

std::vector<float> llama3_factors(double theta, std::uint32_t rotated, double f, double lo, double hi,
                                  double orig) {
  std::vector<float> out;
  for (std::uint32_t i = 0; i < rotated / 2; ++i) {
    const double wavelen = 6.283185307179586 / std::pow(theta, -2.0 * i / rotated);
    const double s = (orig / wavelen - lo) / (hi - lo);
    out.push_back(static_cast<float>(wavelen < orig / hi   ? 1
                                     : wavelen > orig / lo ? f
                                                           : 1 / ((1 - s) / f + s)));
  }
  return out;
}

TEST(Convert, RecoversLlama3Scaling) {
  for (const auto& [f, hi, orig] :
       {std::tuple{8.0, 4.0, 8192.0}, {32.0, 4.0, 8192.0}, {16.0, 8.0, 4096.0}, {8.0, 3.0, 1000.0}}) {
    const auto found = recover_llama3(llama3_factors(500000, 128, f, 1, hi, orig), 500000, 128);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->factor, static_cast<float>(f));
    EXPECT_EQ(found->low, 1);
    EXPECT_EQ(found->high, static_cast<float>(hi));
    EXPECT_EQ(found->original, static_cast<std::uint32_t>(orig));
  }
  const auto one_between = recover_llama3(llama3_factors(500000, 32, 8, 1, 4, 64), 500000,
                                          32);  // too few pairs to solve for two numbers
  ASSERT_TRUE(one_between);
  EXPECT_EQ(one_between->original, 64u);
  const auto no_power_of_two = recover_llama3(llama3_factors(500000, 16, 40, 1, 4, 100), 500000, 16);
  ASSERT_TRUE(no_power_of_two);
  EXPECT_EQ(no_power_of_two->original, 100u);
  for (const double original : {43.0, 100.0, 1.0}) {  // none between: another original, but the same factors
    const auto factors = llama3_factors(1e8, 8, 8, 1, 4, original);
    const auto none_between = recover_llama3(factors, 1e8, 8);
    ASSERT_TRUE(none_between);
    EXPECT_EQ(llama3_factors(1e8, 8, 8, 1, 4, none_between->original), factors) << original;
  }
  EXPECT_EQ(recover_llama3(std::vector<float>(64, 1.0f), 10000, 128)->factor, 1);
  auto wrong = llama3_factors(500000, 128, 8, 1, 4, 8192);
  wrong[40] *= 1.01f;
  EXPECT_FALSE(recover_llama3(wrong, 500000, 128));
  EXPECT_FALSE(recover_llama3(std::vector<float>{1, NAN}, 10000, 4));
  EXPECT_FALSE(recover_llama3(std::vector<float>{1, 0}, 10000, 4));
}

}  // namespace
}  // namespace krafla
