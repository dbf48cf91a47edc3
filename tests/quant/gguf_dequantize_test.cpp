#include "quant/gguf_dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "../formats/test_files.h"
#include "base/float16.h"

namespace krafla {
namespace {

TEST(GgufDequantize, ByHand) {
  std::vector<std::uint8_t> row(20);
  std::vector<float> out(32);
  const auto put = [&](std::size_t at, float f) {
    const std::uint16_t h = float_to_f16(f);
    std::memcpy(&row[at], &h, 2);
  };
  put(0, 0.5f);
  put(2, -3.0f);
  for (std::size_t j = 0; j < 16; ++j) row[4 + j] = static_cast<std::uint8_t>(j | ((15 - j) << 4));
  dequantize_row(*ggml_type(3), row, out, "t");
  for (std::size_t j = 0; j < 16; ++j) {
    EXPECT_EQ(out[j], static_cast<float>(j) * 0.5f - 3.0f);
    EXPECT_EQ(out[j + 16], static_cast<float>(15 - j) * 0.5f - 3.0f);
  }
  EXPECT_EQ(outcome([&] { dequantize_row(*ggml_type(16), row, out, "t"); }).first, "ML_E_UNSUPPORTED");
  EXPECT_EQ(outcome([&] { dequantize_row(*ggml_type(3), Bytes(row).first(19), out, "t"); }).first,
            "ML_E_ARG");
  EXPECT_EQ(ggml_type(4), nullptr);
}

std::vector<std::uint8_t> from_hex(const std::string& hex) {
  std::vector<std::uint8_t> bytes(hex.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return bytes;
}

// The floats are those of another implementation (tests/golden/make_gguf_blocks.py).
TEST(GgufDequantize, EveryTypeBitForBit) {
  std::ifstream in(data_path("gguf_blocks.json"));
  std::set<std::uint32_t> seen;
  for (const auto& entry : nlohmann::json::parse(in)) {
    const GgmlType* type = ggml_type(entry["type"]);
    ASSERT_NE(type, nullptr);
    SCOPED_TRACE(type->name);
    EXPECT_EQ(entry["name"], type->name);
    const auto bytes = from_hex(entry["bytes"]);
    const auto want = from_hex(entry["floats"]);
    ASSERT_EQ(want.size() / 4 / type->block * type->bytes, bytes.size());
    const Exact exact(bytes);
    std::vector<float> out(want.size() / 4);
    dequantize_row(*type, exact.span(), out, "t");
    std::vector<float> floats(out.size());
    std::memcpy(floats.data(), want.data(), want.size());
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(__builtin_bit_cast(std::uint32_t, out[i]), __builtin_bit_cast(std::uint32_t, floats[i]))
          << i << ": " << out[i];
    seen.insert(type->id);
  }
  EXPECT_EQ(seen.size(), 15u);
  for (const std::uint32_t id : {0u, 1u, 9u, 15u, 28u, 30u}) seen.insert(id);  // by hand, here and below
  for (std::uint32_t id = 0; id < 50; ++id) {
    const GgmlType* type = ggml_type(id);
    EXPECT_EQ(type != nullptr && can_dequantize(*type), seen.contains(id)) << id;
  }
  EXPECT_NE(readable_types().find("Q4_K"), std::string::npos);
  EXPECT_EQ(readable_types().find("IQ2"), std::string::npos);
}

TEST(GgufDequantize, RareTypesByHand) {
  const auto read = [](std::uint32_t id, const std::vector<std::uint8_t>& bytes, std::size_t n) {
    std::vector<float> out(n);
    dequantize_row(*ggml_type(id), bytes, out, "t");
    return out;
  };
  std::vector<std::uint8_t> q8_k(292, 77);
  const float d = 0.25f;
  std::memcpy(q8_k.data(), &d, 4);
  for (std::size_t j = 0; j < 256; ++j) q8_k[4 + j] = static_cast<std::uint8_t>(j);
  const auto k = read(15, q8_k, 256);
  for (int j = 0; j < 256; ++j)
    EXPECT_EQ(k[static_cast<std::size_t>(j)], 0.25f * static_cast<float>(j < 128 ? j : j - 256));
  std::vector<std::uint8_t> q8_1(36, 0x7f);
  const std::uint16_t half = float_to_f16(-0.5f);
  std::memcpy(q8_1.data(), &half, 2);
  for (std::size_t j = 0; j < 32; ++j) q8_1[4 + j] = static_cast<std::uint8_t>(128 + j);
  const auto one = read(9, q8_1, 32);
  for (int j = 0; j < 32; ++j)
    EXPECT_EQ(one[static_cast<std::size_t>(j)], -0.5f * static_cast<float>(j - 128));
  const double wide[] = {0.1, -1e300, 16777217.0};
  std::vector<std::uint8_t> f64(24);
  std::memcpy(f64.data(), wide, 24);
  EXPECT_EQ(read(28, f64, 3), (std::vector<float>{0.1f, -INFINITY, 16777216.0f}));
  EXPECT_EQ(read(30, {0x80, 0x3f, 0x00, 0xc0}, 2), (std::vector<float>{1, -2}));
  EXPECT_EQ(read(1, {0x00, 0x3c, 0x01, 0x80}, 2), (std::vector<float>{1, -0x1p-24f}));
}

}  // namespace
}  // namespace krafla
