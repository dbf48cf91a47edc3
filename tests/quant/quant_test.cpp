#include "quant/quant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <random>

#include "../formats/test_files.h"

namespace krafla {
namespace {

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> all;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name)
    if (const Kernels* k = find_kernels(*name)) all.push_back(k);
  return all;
}

std::vector<float> floats(const std::string& file) {
  const auto bytes = file_bytes(data_path("quant/" + file));
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

struct Blocks {
  std::vector<std::uint8_t> q, d;
  bool operator==(const Blocks&) const = default;
};

Blocks quantize(const Kernels& kernels, const QuantRule& rule, std::span<const float> x, std::size_t cols) {
  const std::size_t rows = x.size() / cols;
  Blocks b{std::vector<std::uint8_t>(rows * quant_row_bytes(rule.type, cols)),
           std::vector<std::uint8_t>(rows * scale_row_bytes(rule.d_f16, cols))};
  quantize_rows(kernels, rule, x.data(), rows, cols, b.q.data(), b.d.data(), "w", 0);
  return b;
}

TEST(Quant, EveryKernelGivesTheOraclesBytes) {
  std::ifstream in(data_path("quant/cases.json"));
  const auto all = nlohmann::json::parse(in);
  const auto expected = file_bytes(data_path("quant/expected.bin"));
  const auto importance = floats("importance.bin");
  const std::size_t cols = all["cols"];
  for (const Kernels* kernels : all_kernels()) {
    const std::uint8_t* want = expected.data();
    for (const auto& c : all["cases"]) {
      SCOPED_TRACE(std::string(kernels->name) + " " + c.dump());
      QuantRule rule{.type = c["kind"] == "q4" ? WeightType::q4_0 : WeightType::q8_0,
                     .d_f16 = c["f16"],
                     .q4_rule = c["rule"] == "round" ? Q4Rule::round : Q4Rule::search,
                     .importance = {}};
      if (c["importance"]) rule.importance = importance;
      const auto x = floats(c["f16"] ? "inputs_f16.bin" : "inputs_f32.bin");
      const Blocks got = quantize(*kernels, rule, x, cols);
      const std::size_t q_bytes = c["q_bytes"], d_bytes = c["d_bytes"];
      ASSERT_EQ(got.q.size(), q_bytes);
      ASSERT_EQ(got.d.size(), d_bytes);
      for (std::size_t i = 0; i < d_bytes; ++i) ASSERT_EQ(got.d[i], want[q_bytes + i]) << "scale byte " << i;
      for (std::size_t i = 0; i < q_bytes; ++i) ASSERT_EQ(got.q[i], want[i]) << "quant byte " << i;
      want += q_bytes + d_bytes;
    }
    EXPECT_EQ(want, expected.data() + expected.size());
  }
}

TEST(Quant, EveryKernelGivesTheSameBytesOnRandomRows) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 300; ++round) {
    const std::size_t cols = 32 * (1 + random() % 20);
    const float size = std::pow(10.0f, static_cast<float>(random() % 54) - 44);
    std::vector<float> x(cols), importance(cols);
    for (float& v : x) v = random() % 8 == 0 ? 0 : normal(random) * size;
    for (float& v : importance) v = std::max(0.001f, std::fabs(normal(random)));
    for (int kind = 0; kind < 8; ++kind) {
      const WeightType type = kind >= 2 ? WeightType::q4_0 : WeightType::q8_0;
      QuantRule rule{.type = type,
                     .d_f16 = kind % 2 == 1 && size < 1e3f,
                     .q4_rule = kind >= 6 ? Q4Rule::round : Q4Rule::search,
                     .importance = {}};
      if (kind == 4 || kind == 5) rule.importance = importance;
      const Blocks reference = quantize(*find_kernels("scalar"), rule, x, cols);
      for (const Kernels* kernels : all_kernels())
        EXPECT_TRUE(quantize(*kernels, rule, x, cols) == reference) << kernels->name << " " << kind;
      EXPECT_TRUE(type == WeightType::q4_0 || std::count(reference.q.begin(), reference.q.end(), 0x80) == 0);
    }
  }
}

TEST(Quant, TheErrorIsAsSmallAsTheLevelsAllow) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(64 * 256), y(x.size());
  for (float& v : x) v = normal(random);
  const auto error = [&](const QuantRule& rule) {
    const Blocks b = quantize(*find_kernels("scalar"), rule, x, 256);
    dequantize_rows(*find_kernels("scalar"), {rule.type, 64, 256, b.q.data(), b.d.data(), rule.d_f16},
                    y.data());
    double e = 0, w = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      e += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
      w += std::pow(static_cast<double>(x[i]), 2);
    }
    return std::sqrt(e / w);
  };
  EXPECT_LT(error({.type = WeightType::q8_0, .d_f16 = true, .q4_rule = Q4Rule::search, .importance = {}}),
            0.008);
  const double search =
      error({.type = WeightType::q4_0, .d_f16 = true, .q4_rule = Q4Rule::search, .importance = {}});
  EXPECT_LT(search, 0.095);
  EXPECT_LT(search,
            error({.type = WeightType::q4_0, .d_f16 = true, .q4_rule = Q4Rule::round, .importance = {}}));
}

TEST(Quant, RefusesWhatHasNoPlace) {
  const Kernels& kernels = *find_kernels("scalar");
  std::vector<float> x(128, 1.0f);
  const auto with = [&](std::size_t i, float v, QuantRule rule) {
    std::vector<float> y = x;
    y[i] = v;
    return outcome([&] { quantize(kernels, rule, y, 64); });
  };
  for (const WeightType type : {WeightType::q8_0, WeightType::q4_0}) {
    const QuantRule f32{.type = type, .d_f16 = false, .q4_rule = Q4Rule::search, .importance = {}};
    const QuantRule f16{.type = type, .d_f16 = true, .q4_rule = Q4Rule::search, .importance = {}};
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      const auto [status, message] = with(70, bad, f32);
      EXPECT_EQ(status, "ML_E_FORMAT");
      EXPECT_NE(message.find("w row 1"), std::string::npos) << message;
    }
    EXPECT_EQ(with(3, 1e8f, f16).first, "ML_E_FORMAT");
    EXPECT_EQ(with(3, 1e8f, f32).first, "ML_OK");
    EXPECT_EQ(with(3, 1e-38f, f16).first, "ML_OK");
  }
  EXPECT_EQ(with(3, 65504.0f * 127,
                 {.type = WeightType::q8_0, .d_f16 = true, .q4_rule = Q4Rule::search, .importance = {}})
                .first,
            "ML_OK");
  EXPECT_EQ(outcome([&] { quantize(kernels, {}, std::span(x).first(48), 48); }).first, "ML_E_SHAPE");
}

TEST(Quant, Speed) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(std::size_t{1} << 20);
  for (float& v : x) v = normal(random);
  for (const Kernels* kernels : all_kernels())
    for (const int kind : {0, 1, 2}) {
      const QuantRule rule{.type = kind > 0 ? WeightType::q4_0 : WeightType::q8_0,
                           .d_f16 = true,
                           .q4_rule = kind == 1 ? Q4Rule::search : Q4Rule::round,
                           .importance = {}};
      double best = 1e9;  // of this thread's own time: the machine may be busy with others
      for (int i = 0; i < 3; ++i) {
        const std::clock_t start = std::clock();
        quantize(*kernels, rule, x, 1024);
        best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
      }
      std::printf("%-6s %-11s %6.1f M weights/s\n", kernels->name,
                  kind == 0   ? "Q8_0"
                  : kind == 1 ? "Q4_0 search"
                              : "Q4_0 round",
                  static_cast<double>(x.size()) / best / 1e6);
    }
}

}  // namespace
}  // namespace krafla
